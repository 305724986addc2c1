"""Messages of a chat in OpenAI's form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from edgedec.core.errors import UsageError
from edgedec.server.wire.body import path_of, short
from edgedec.server.wire.errors import invalid
from edgedec.session.message import ROLES, Message, message_of

_MEDIA = ("image", "audio", "video", "file")
_SENT_BACK = ("annotations", "audio", "edgedec", "id", "refusal", "status")
"""Fields of replies that clients send back, and no template reads."""


def messages_of(given: list[Any], where: str = "messages") -> tuple[Message, ...]:
    """Return the messages of a body. Raises ApiError for the first that is wrong."""
    if not given:
        raise invalid(f"{where} is empty; it needs a message", where)
    return tuple(_message(one, path_of([at], where)) for at, one in enumerate(given))


def _message(given: Any, where: str) -> Message:
    if not isinstance(given, Mapping):
        raise invalid(f'{where} should be an object such as {{"role": "user", "content": "Hello"}}', where)
    role = given.get("role")
    if role not in (*ROLES, "developer"):
        raise invalid(f"{where}.role should be one of {', '.join(ROLES)}", f"{where}.role")
    _refuse_media(given.get("content"), f"{where}.content")
    fields = dict(given)
    if role == "assistant":
        fields = {name: value for name, value in given.items() if name not in _SENT_BACK}
        if fields.get("tool_calls") and fields.get("content") is None:
            fields["content"] = ""
    try:
        return message_of(fields)
    except UsageError as error:
        raise invalid(f"{where}: {error}", where) from None


def _refuse_media(content: Any, where: str) -> None:
    for at, part in enumerate(content if isinstance(content, list) else ()):
        kind = part.get("type") if isinstance(part, Mapping) else None
        if isinstance(kind, str) and any(word in kind for word in _MEDIA):
            place = path_of([at], where)
            message = f"{place} is of type {short(kind)}; models here read text alone"
            raise invalid(message, place, "unsupported_parameter")
