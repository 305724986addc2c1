"""Items of the input of a response, as messages of a chat."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from edgedec.server.wire.body import path_of, short
from edgedec.server.wire.errors import ApiError, invalid
from edgedec.server.wire.messages import messages_of
from edgedec.session.message import Message

_TEXTS = ("input_text", "output_text", "text", "refusal")
_LEFT_OUT = ("web_search_call",)
"""Items of tools that others ran; the answer behind them says what they found."""


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
    found = [one for one in found if not _thinks(one)]
    if not found:
        raise invalid("input is empty; it needs a message", "input")
    return messages_of([*before, *found], "input")


def _add(found: list[Any], item: Any, where: str) -> None:
    """Add an item to messages.

    A call joins the message of the assistant before it, and an answer the reasoning before it.
    """
    if not isinstance(item, Mapping):
        raise invalid(f"{where} should be an object", where)
    match item.get("type", "message"):
        case "message":
            content = _content(item.get("content"), f"{where}.content")
            if item.get("role") == "assistant" and found and _thinks(found[-1]):
                found[-1]["content"] = content
            else:
                found.append({"role": item.get("role"), "content": content})
        case "function_call" | "custom_tool_call" as kind:
            arguments = item.get("arguments") if kind == "function_call" else {"input": item.get("input")}
            function = {"name": item.get("name"), "arguments": arguments}
            call = {"id": item.get("call_id"), "type": "function", "function": function}
            if not found or found[-1]["role"] != "assistant":
                found.append({"role": "assistant", "content": ""})
            found[-1].setdefault("tool_calls", []).append(call)
        case "function_call_output" | "custom_tool_call_output":
            output = _content(item.get("output"), f"{where}.output")
            found.append({"role": "tool", "tool_call_id": item.get("call_id"), "content": output})
        case "reasoning":
            if text := _reasoning(item):
                found.append({"role": "assistant", "content": "", "reasoning_content": text})
        case kind if kind in _LEFT_OUT:
            return
        case kind:
            raise _unsupported(where, f"is of type {short(kind)}, which is not supported")


def _thinks(message: dict[str, Any]) -> bool:
    """Whether a message is reasoning alone, whose answer is to come."""
    return "reasoning_content" in message and not (message["content"] or message.get("tool_calls"))


def _reasoning(item: Mapping[str, Any]) -> str:
    """Return the text of reasoning. A summary of it, or an encrypted form, is not read."""
    parts = item.get("content")
    texts = (
        [part.get("text") for part in parts if isinstance(part, Mapping)] if isinstance(parts, list) else []
    )
    return "".join(text for text in texts if isinstance(text, str))


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
