"""Answers in JSON."""

from __future__ import annotations

from typing import Any

from pydantic_core import to_json
from starlette.responses import Response

from edgedec.server.wire.errors import ApiError


def json_answer(
    data: Any, status: int = 200, headers: dict[str, str] | None = None, *, close: bool = False
) -> Response:
    """Return an answer; ``close`` ends the connection after it."""
    more = {"connection": "close"} if close else {}
    body = to_json(data, inf_nan_mode="null")
    return Response(body, status, {**(headers or {}), **more}, "application/json")


def error_answer(error: ApiError, *, close: bool = False) -> Response:
    """Return an error in OpenAI's form."""
    return json_answer(error.as_json(), error.status, error.headers, close=close)
