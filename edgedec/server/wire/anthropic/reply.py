"""A message in Anthropic's form: named events of a stream, or one object."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from edgedec.server.wire.anthropic.request import MessageBody
from edgedec.server.wire.error_forms import message_error
from edgedec.server.wire.errors import ApiError
from edgedec.server.wire.parts import BeginReading, ReadText, SampleReader
from edgedec.server.wire.reply_form import MESSAGE_EVENTS, Frame
from edgedec.server.wire.usage import MemoryUse
from edgedec.server.work.request import Event, Piece, Usage
from edgedec.text.tool_calls.scanner import CallDelta

_REASONS = {"stop": "end_turn", "context": "model_context_window_exceeded"}
"""Anthropic's word for the end of a reply; others are a limit."""
_BROKEN = "INVALID_JSON"
"""Name of arguments that were cut, as Anthropic's guide sends them back."""


class MessageReply:
    """The message to a body, of the model ``model``; ``prompt`` returns the prompt's tokens where known."""

    framing = MESSAGE_EVENTS

    def __init__(self, body: MessageBody, model: str, begin: BeginReading, prompt: Callable[[], int]) -> None:
        self._asked, self._prompt = body, prompt
        self._head = {
            "id": f"msg_{secrets.token_hex(12)}", "type": "message", "role": "assistant", "model": model,
        }  # fmt: skip
        self._reader = SampleReader(begin, several=body.several)
        self._blocks: list[dict[str, Any]] = []
        self._open = False
        self._reason: str | None = None
        self._stop: str | None = None
        self._usage = Usage()

    def opening(self) -> Iterator[Frame]:
        """Yield the message without any content."""
        usage = {"input_tokens": self._prompt(), "output_tokens": 0}
        ending = {"stop_reason": None, "stop_sequence": None}
        yield _frame("message_start", message={**self._head, "content": [], **ending, "usage": usage})
        yield _frame("ping")

    def event(self, event: Event) -> Iterator[Frame]:
        """Yield the frames of an event."""
        if isinstance(event, Piece):
            yield from self._read(self._reader.push(event.text, event.tokens))
            return
        yield from self._read(self._reader.flush())
        yield from self._close()
        self._reason, self._stop, self._usage = event.reason, event.stop, event.usage

    def closing(self, memory: MemoryUse) -> Iterator[Frame]:
        """Yield the reason for the end, with the figures, and the end."""
        yield _frame("message_delta", delta=self._ending(), usage=self._figures())
        yield _frame("message_stop")

    def failing(self, error: ApiError) -> Iterable[Frame]:
        """Return an error as an event."""
        return [Frame(message_error(error), "error")]

    def whole(self, memory: MemoryUse) -> Any:
        """Return the message."""
        content = [_finished(block) for block in self._blocks]
        return {**self._head, "content": content, **self._ending(), "usage": self._figures()}

    def _read(self, reading: ReadText) -> Iterator[Frame]:
        parts = reading.parts
        if parts.reasoning:
            yield from self._text("thinking", "" if self._asked.hides_thinking else parts.reasoning)
        if parts.content:
            yield from self._text("text", parts.content)
        for delta in parts.calls:
            yield from self._call(delta)

    def _text(self, kind: str, text: str) -> Iterator[Frame]:
        if not self._open or self._blocks[-1]["type"] != kind:
            more = {"signature": ""} if kind == "thinking" else {}
            yield from self._begin({"type": kind, kind: "", **more})
        self._blocks[-1][kind] += text
        if text:
            yield self._delta(type=f"{kind}_delta", **{kind: text})

    def _call(self, delta: CallDelta) -> Iterator[Frame]:
        if delta.name is not None:
            yield from self._begin({"type": "tool_use", "id": delta.id, "name": delta.name, "input": {}})
            self._blocks[-1]["input"] = ""
        if delta.arguments:
            self._blocks[-1]["input"] += delta.arguments
            yield self._delta(type="input_json_delta", partial_json=delta.arguments)

    def _begin(self, block: dict[str, Any]) -> Iterator[Frame]:
        yield from self._close()
        self._open = True
        self._blocks.append(dict(block))
        yield _frame("content_block_start", index=len(self._blocks) - 1, content_block=block)

    def _close(self) -> Iterator[Frame]:
        if self._open:
            self._open = False
            yield _frame("content_block_stop", index=len(self._blocks) - 1)

    def _delta(self, **fields: Any) -> Frame:
        return _frame("content_block_delta", index=len(self._blocks) - 1, delta=fields)

    def _ending(self) -> dict[str, Any]:
        stop = self._stop if self._stop in (self._asked.stop_sequences or ()) else None
        reason = _REASONS.get(self._reason or "", "max_tokens")
        if stop is not None:
            reason = "stop_sequence"
        elif reason == "end_turn" and any(block["type"] == "tool_use" for block in self._blocks):
            reason = "tool_use"
        return {"stop_reason": reason, "stop_sequence": stop}

    def _figures(self) -> dict[str, Any]:
        usage = self._usage
        return {
            "input_tokens": usage.prompt_tokens - usage.cached_tokens,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": usage.cached_tokens,
            "output_tokens": usage.completion_tokens,
        }


def _frame(name: str, **fields: Any) -> Frame:
    return Frame({"type": name, **fields}, name)


def _finished(block: dict[str, Any]) -> dict[str, Any]:
    """Return a block whose arguments are values."""
    if block["type"] != "tool_use":
        return block
    text = block["input"]
    try:
        values = json.loads(text or "{}")
    except ValueError:
        values = None
    return {**block, "input": values if isinstance(values, dict) else {_BROKEN: text}}
