"""The items of a response: reasoning, messages, calls. An item is open while text goes into it."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from edgedec.text.tool_calls.scanner import CallDelta

News = tuple[str, dict[str, Any]]
"""The name of an event, without its first word, and its fields."""
_PARTS = {"message": ("output_text", "msg"), "reasoning": ("reasoning_text", "rs")}
"""Kinds of items with parts: the type of their part, and how their ids begin."""
_CALL = "function_call"


class OutputItems:
    """Items so far; each method yields what a stream says of the change."""

    def __init__(self) -> None:
        self.closed: list[dict[str, Any]] = []
        self._open: dict[str, Any] | None = None
        self._texts: list[str] = []

    @property
    def any_answer(self) -> bool:
        """Whether there is an item beside reasoning."""
        every = [*self.closed, self._open] if self._open else self.closed
        return any(one["type"] != "reasoning" for one in every)

    def begin(self, kind: str) -> Iterator[News]:
        """Open an item with an empty part of text; close the one before."""
        yield from self.close("completed")
        part, prefix = _PARTS[kind]
        more: dict[str, Any] = {"role": "assistant"} if kind == "message" else {"summary": []}
        item = {"id": f"{prefix}_{secrets.token_hex(12)}", "type": kind, "status": "in_progress", **more}
        self._open, self._texts = {**item, "content": [_part(part)]}, []
        yield "output_item.added", {"output_index": len(self.closed), "item": {**item, "content": []}}
        yield "content_part.added", {**self._place(), "content_index": 0, "part": _part(part)}

    def text(self, kind: str, text: str, logprobs: list[Any]) -> Iterator[News]:
        """Add text to an item of this kind, a new one where another is open."""
        if self._open is None or self._open["type"] != kind:
            yield from self.begin(kind)
        assert self._open is not None
        self._texts.append(text)
        more: dict[str, Any] = {}
        if kind == "message":
            self._open["content"][0]["logprobs"] += logprobs
            more = {"logprobs": logprobs}
        yield f"{_PARTS[kind][0]}.delta", {**self._place(), "content_index": 0, "delta": text, **more}

    def call(self, delta: CallDelta) -> Iterator[News]:
        """Open the item of a call, or add to its arguments."""
        if delta.name is not None:
            yield from self.close("completed")
            own = {"id": f"fc_{secrets.token_hex(12)}", "call_id": delta.id, "name": delta.name}
            self._open, self._texts = {"type": _CALL, "status": "in_progress", "arguments": "", **own}, []
            yield "output_item.added", {"output_index": len(self.closed), "item": dict(self._open)}
        if delta.arguments:
            self._texts.append(delta.arguments)
            yield "function_call_arguments.delta", {**self._place(), "delta": delta.arguments}

    def close(self, status: str) -> Iterator[News]:
        """Close the open item, if there is one."""
        if (item := self._open) is None:
            return
        text, item["status"] = "".join(self._texts), status
        if item["type"] == _CALL:
            item["arguments"] = text
            done = {**self._place(), "name": item["name"], "arguments": text}
            yield "function_call_arguments.done", done
        else:
            part = item["content"][0]
            part["text"] = text
            more = {"logprobs": part["logprobs"]} if item["type"] == "message" else {}
            place = {**self._place(), "content_index": 0}
            yield f"{part['type']}.done", {**place, "text": text, **more}
            yield "content_part.done", {**place, "part": part}
        yield "output_item.done", {"output_index": len(self.closed), "item": item}
        self.closed.append(item)
        self._open = None

    def _place(self) -> dict[str, Any]:
        assert self._open is not None
        return {"item_id": self._open["id"], "output_index": len(self.closed)}


def _part(kind: str) -> dict[str, Any]:
    more: dict[str, Any] = {"annotations": [], "logprobs": []} if kind == "output_text" else {}
    return {"type": kind, "text": "", **more}
