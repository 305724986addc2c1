"""Errors in the form of each interface, which the path of a request tells."""

from __future__ import annotations

from typing import Any

from edgedec.server.wire.errors import ApiError

_MESSAGES = "/v1/messages"
_OLLAMA = "/api/"
_KINDS = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
}
"""Anthropic's types of errors, by status."""


def error_json(error: ApiError, path: str) -> dict[str, Any]:
    """Return the body of an answer at ``path``."""
    if path.startswith(_MESSAGES):
        return message_error(error)
    return {"error": error.message} if path.startswith(_OLLAMA) else error.as_json()


def message_error(error: ApiError) -> dict[str, Any]:
    """Return an error in Anthropic's form."""
    kind = _KINDS.get(error.status, "api_error" if error.status >= 500 else "invalid_request_error")
    text = error.message
    if error.code == "context_length_exceeded":  # by these words clients know that they have to shorten
        text = f"prompt is too long: {text}"
    return {"type": "error", "error": {"type": kind, "message": text}}
