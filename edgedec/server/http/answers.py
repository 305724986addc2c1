"""Answers in JSON."""

from __future__ import annotations

from typing import Any

from pydantic_core import to_json
from starlette.responses import Response

from edgedec.server.wire.error_forms import error_json
from edgedec.server.wire.errors import ApiError


def json_answer(
    data: Any, status: int = 200, headers: dict[str, str] | None = None, *, close: bool = False
) -> Response:
    """Return an answer; ``close`` ends the connection after it."""
    more = {"connection": "close"} if close else {}
    body = to_json(data, inf_nan_mode="null")
    return Response(body, status, {**(headers or {}), **more}, "application/json")


def error_answer(error: ApiError, path: str = "", *, close: bool = False) -> Response:
    """Return an error in the form of the interface that has ``path``."""
    return json_answer(error_json(error, path), error.status, error.headers, close=close)
