"""Messages of a chat in OpenAI's form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from edgedec.core.errors import UsageError
from edgedec.server.wire.body import path_of, short
from edgedec.server.wire.errors import invalid
from edgedec.session.message import ROLES, Message, message_of

_MEDIA = ("image", "audio", "video", "file")
_READ = frozenset(("role", "content", "name", "tool_calls", "tool_call_id"))
"""Fields that a template reads. Clients send others back that replies of some server had."""
_REASONING = ("reasoning_content", "reasoning")
_THOUGHTS = ("thinking", "redacted_thinking", "reasoning")
"""Kinds of parts that are no answer."""
_REFUSED = {
    "function_call": "send tool_calls",
    "images": "models here read text alone",
    "prefix": "use the field edgedec.continue of the body",
}
"""Other fields that change a prompt, and words on what would work."""


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
    for name, why in _REFUSED.items():
        if given.get(name):
            raise invalid(
                f"{where}.{name} is not supported: {why}", f"{where}.{name}", "unsupported_parameter"
            )
    _refuse_media(given.get("content"), f"{where}.content")
    try:
        return message_of(_fields(given, role))
    except UsageError as error:
        raise invalid(f"{where}: {error}", where) from None


def _fields(given: Mapping[str, Any], role: str) -> dict[str, Any]:
    """Return the fields of a message that its role has and a template reads."""
    fields = {name: value for name, value in given.items() if name in _READ}
    if role != "tool":
        fields.pop("tool_call_id", None)
    if role == "assistant":
        texts = [given[name] for name in _REASONING if isinstance(given.get(name), str)]
        fields["reasoning"] = next(filter(None, texts), None)
    if isinstance(content := fields.get("content"), list):
        fields["content"] = [_text(part) for part in content if not (role == "assistant" and _thought(part))]
    if role in ("assistant", "tool"):
        fields["content"] = fields.get("content") or ""
    return fields


def _thought(part: Any) -> bool:
    return isinstance(part, Mapping) and part.get("type") in _THOUGHTS


def _text(part: Any) -> Any:
    """Return a part of a message; a refusal is text, too."""
    refused = isinstance(part, Mapping) and part.get("type") == "refusal"
    return {"type": "text", "text": part.get("refusal")} if refused else part


def _refuse_media(content: Any, where: str) -> None:
    for at, part in enumerate(content if isinstance(content, list) else ()):
        kind = part.get("type") if isinstance(part, Mapping) else None
        if isinstance(kind, str) and any(word in kind for word in _MEDIA):
            place = path_of([at], where)
            message = f"{place} is of type {short(kind)}; models here read text alone"
            raise invalid(message, place, "unsupported_parameter")
