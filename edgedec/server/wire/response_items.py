"""Items of the input of a response, as messages of a chat."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from edgedec.server.wire.body import path_of, short
from edgedec.server.wire.errors import ApiError, invalid
from edgedec.server.wire.messages import messages_of
from edgedec.session.message import Message

_TEXTS = ("input_text", "output_text", "text", "refusal")


def input_messages(given: Any, instructions: str | None) -> tuple[Message, ...]:
    """Return ``instructions`` and the input, a text or items, as messages. Raises ApiError."""
    before: list[Any] = [{"role": "system", "content": instructions}] if instructions else []
    if isinstance(given, str):
        return messages_of([*before, {"role": "user", "content": given}], "input")
    if not isinstance(given, list):
        raise invalid("input should be text, or a list of items", "input")
    found: list[Any] = []
    for at, item in enumerate(given):
        _add(found, item, path_of([at], "input"))
    if not found:
        raise invalid("input is empty; it needs a message", "input")
    return messages_of([*before, *found], "input")


def _add(found: list[Any], item: Any, where: str) -> None:
    """Add an item to messages; a call joins the message of the assistant before it."""
    if not isinstance(item, Mapping):
        raise invalid(f"{where} should be an object", where)
    match item.get("type", "message"):
        case "message":
            found.append(
                {"role": item.get("role"), "content": _content(item.get("content"), f"{where}.content")}
            )
        case "function_call":
            function = {"name": item.get("name"), "arguments": item.get("arguments")}
            call = {"id": item.get("call_id"), "type": "function", "function": function}
            if found and found[-1]["role"] == "assistant":
                found[-1].setdefault("tool_calls", []).append(call)
            else:
                found.append({"role": "assistant", "content": "", "tool_calls": [call]})
        case "function_call_output":
            output = _content(item.get("output"), f"{where}.output")
            found.append({"role": "tool", "tool_call_id": item.get("call_id"), "content": output})
        case "reasoning":
            return
        case kind:
            raise _unsupported(where, f"is of type {short(kind)}, which is not supported")


def _content(given: Any, where: str) -> Any:
    """Return content with its parts of text in the form of a chat; others are refused later."""
    if not isinstance(given, list):
        return given
    parts = []
    for at, part in enumerate(given):
        if isinstance(part, Mapping) and part.get("type") in _TEXTS:
            text = part.get("refusal") if part["type"] == "refusal" else part.get("text")
            parts.append({"type": "text", "text": text})
        else:
            kind = part.get("type") if isinstance(part, Mapping) else part
            raise _unsupported(path_of([at], where), f"is of type {short(kind)}; models here read text alone")
    return parts


def _unsupported(where: str, what: str) -> ApiError:
    return invalid(f"{where} {what}", where, "unsupported_parameter")
