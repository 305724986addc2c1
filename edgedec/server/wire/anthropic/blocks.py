"""Anthropic's turns, whose contents are blocks, as messages of a chat."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from edgedec.core.errors import UsageError
from edgedec.server.wire.body import path_of, short
from edgedec.server.wire.errors import ApiError, invalid
from edgedec.session.message import Message, message_of

_ROLES = ("user", "assistant", "system")
_GAP = "\n\n"
"""Between texts of blocks that become one text."""
_HEADER = "x-anthropic-"
"""Beginning of system blocks that are for a service's bills, and change with each request."""


def system_text(given: Any) -> str:
    """Return the text of ``system``, a text or blocks of it. Raises ApiError."""
    texts = [given] if isinstance(given, str) else [_text(*one) for one in _listed(given, "system")]
    return _GAP.join(text for text in texts if text and not text.startswith(_HEADER))


def turns_of(given: list[Any], system: Any = None) -> tuple[Message, ...]:
    """Return turns as messages behind the system's. Raises ApiError for the first that is wrong.

    Turns of the same role that follow one another become one. Results of tools are messages of their own.
    """
    if not given:
        raise invalid("messages is empty; it needs a message", "messages")
    text = system_text(system) if system else ""
    found = [Message("system", text)] if text else []
    for at, one in enumerate(given):
        where = path_of([at], "messages")
        try:
            for message in _messages(one, where):
                _join(found, message)
        except UsageError as error:
            raise invalid(f"{where}: {error}", where) from None
    return tuple(found)


def _messages(given: Any, where: str) -> list[Message]:
    if not isinstance(given, Mapping):
        raise invalid(f'{where} should be an object such as {{"role": "user", "content": "Hello"}}', where)
    role, content = given.get("role"), given.get("content")
    if role not in _ROLES:
        raise invalid(f"{where}.role should be one of {', '.join(_ROLES)}", f"{where}.role")
    if isinstance(content, str):
        return [Message(role, content)]
    blocks = _listed(content, f"{where}.content")
    if role == "assistant":
        return [_reply(blocks)]
    found: list[Message] = []
    for block, place in blocks:
        own = _result(block, place) if _kind(block) == "tool_result" else Message(role, _text(block, place))
        _join(found, own)
    return found or [Message(role, "")]


def _join(found: list[Message], message: Message) -> None:
    """Add a message; one of the same role before it takes its texts in."""
    last = found[-1] if found else None
    if last is None or last.role != message.role or message.role == "tool":
        found.append(message)
        return
    found[-1] = replace(
        last,
        content=_GAP.join(filter(None, (last.content, message.content))),
        reasoning=_GAP.join(filter(None, (last.reasoning, message.reasoning))),
        tool_calls=last.tool_calls + message.tool_calls,
    )


def _reply(blocks: list[tuple[Any, str]]) -> Message:
    texts, thoughts, calls = [], [], []
    for block, place in blocks:
        match _kind(block):
            case "thinking":
                thoughts.append(str(block.get("thinking") or ""))
            case "redacted_thinking":
                continue
            case "tool_use":
                values = json.dumps(block.get("input") or {})
                function = {"name": block.get("name"), "arguments": values}
                calls.append({"id": block.get("id"), "type": "function", "function": function})
            case _:
                texts.append(_text(block, place))
    fields = {"role": "assistant", "content": _GAP.join(filter(None, texts)), "tool_calls": calls}
    return message_of({**fields, "reasoning": _GAP.join(filter(None, thoughts))})


def _result(block: Mapping[str, Any], where: str) -> Message:
    """Return the result of a tool as a message. One that is an error says so, for templates have no mark."""
    content = block.get("content") or ""
    if not isinstance(content, str):
        content = _GAP.join(_text(*one) for one in _listed(content, f"{where}.content"))
    if block.get("is_error") and "error" not in content[:40].lower():
        content = f"Error: {content}"
    return message_of({"role": "tool", "content": content, "tool_call_id": block.get("tool_use_id")})


def _text(block: Any, where: str) -> str:
    kind = _kind(block)
    if kind == "text" and isinstance(block.get("text"), str):
        return str(block["text"])
    if kind == "document" and isinstance(source := block.get("source"), Mapping):
        if source.get("type") == "text" and isinstance(source.get("data"), str):
            return _GAP.join(filter(None, (block.get("title"), source["data"])))
        kind = f"document with {short(source.get('type'))}"
    raise _unsupported(where, kind)


def _listed(given: Any, where: str) -> list[tuple[Any, str]]:
    """Return blocks with their places. Raises ApiError."""
    if not isinstance(given, list):
        raise invalid(f"{where} should be text, or a list of blocks", where)
    return [(block, path_of([at], where)) for at, block in enumerate(given)]


def _kind(block: Any) -> str:
    return short(block.get("type")) if isinstance(block, Mapping) else type(block).__name__


def _unsupported(where: str, kind: str) -> ApiError:
    words = f"{where} is of type {kind}; models here read text alone"
    return invalid(words, where, "unsupported_parameter")
