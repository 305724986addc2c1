"""Errors in OpenAI's form."""

from __future__ import annotations

import math
from typing import Any

from edgedec.core.errors import (
    ContextFullError,
    EdgeDecError,
    GrammarError,
    MemoryBudgetError,
    NotFoundError,
    TemplateError,
    UnsupportedError,
    UsageError,
)
from edgedec.server.work.request import BusyError, ClosingError, TimeLimitError

INVALID, INTERNAL, LIMITED = "invalid_request_error", "server_error", "rate_limit_error"
_RETRY_S = 5


class ApiError(Exception):
    """An answer that is an error: its status, and OpenAI's fields.

    ``cause`` names the failure for the log of the server, where the message does not.
    """

    def __init__(
        self, status: int, message: str, *, param: str | None = None, code: str | None = None, cause: str = ""
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.param, self.code, self.cause = status, message, param, code, cause
        self.headers: dict[str, str] = {}

    def retry_after(self, seconds: float) -> ApiError:
        """Say when to try again; return the error."""
        self.headers["retry-after"] = str(max(1, math.ceil(seconds)))
        return self

    @property
    def kind(self) -> str:
        """OpenAI's type of the error."""
        if self.status == 429:
            return LIMITED
        return INTERNAL if self.status >= 500 else INVALID

    def as_json(self) -> dict[str, Any]:
        """Return the body of the answer."""
        fields = {"message": self.message, "type": self.kind, "param": self.param, "code": self.code}
        return {"error": fields}


def invalid(message: str, param: str | None = None, code: str | None = None) -> ApiError:
    """Return the error for a request that cannot be answered as it is."""
    return ApiError(400, message, param=param, code=code)


def internal(cause: str) -> ApiError:
    """Return the error that says nothing of the server; ``cause`` is for its log."""
    return ApiError(500, "the server failed to answer; its log says more", code="internal_error", cause=cause)


def api_error(error: Exception) -> ApiError:
    """Return the answer to a request that ended in ``error``."""
    match error:
        case ApiError():
            return error
        case BusyError():
            busy = ApiError(429, str(error), code="rate_limit_exceeded")
            return busy.retry_after(error.retry_after_s)
        case ClosingError():
            return ApiError(503, str(error), code="shutting_down").retry_after(_RETRY_S)
        case TimeLimitError():
            return ApiError(503, str(error), code="timeout").retry_after(_RETRY_S)
        case NotFoundError():
            return ApiError(404, str(error), param="model", code="model_not_found")
        case ContextFullError():
            return invalid(str(error), code="context_length_exceeded")
        case UsageError() | TemplateError() | UnsupportedError() | GrammarError():
            return invalid(str(error))
        case MemoryBudgetError():
            return ApiError(503, error.message, code="out_of_memory", cause=str(error))
        case EdgeDecError():
            return internal(f"{type(error).__name__}: {error.message}")
    return internal(type(error).__name__)
