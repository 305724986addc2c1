"""A reply in Ollama's form: lines of JSON, or one object."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

from edgedec.server.wire.errors import ApiError
from edgedec.server.wire.logprobs import content_logprobs
from edgedec.server.wire.ollama.request import OllamaBody
from edgedec.server.wire.parts import BeginReading, ReadText, SampleReader
from edgedec.server.wire.reply_form import FINISH, LINES, Frame
from edgedec.server.wire.usage import MemoryUse
from edgedec.server.work.request import Event, Piece, TracedToken, Usage
from edgedec.text.reply_reader import ReplyParts
from edgedec.text.tool_calls.scanner import CallDelta

_NS = 1_000_000_000
_BROKEN = "INVALID_JSON"
"""Name of arguments that were cut."""


def now() -> str:
    """Return the time as Ollama states it."""
    return datetime.now(UTC).isoformat().replace("+00:00", "Z")


class OllamaReply:
    """The reply to a body. ``chat``: it is a message. Without ``begin`` its text is shown as it is."""

    framing = LINES

    def __init__(self, body: OllamaBody, begin: BeginReading | None, *, chat: bool) -> None:
        self._asked, self._chat = body, chat
        self._reader = SampleReader(begin) if begin else None
        self._parts = {"content": "", "thinking": ""}
        self._calls: list[dict[str, str]] = []
        self._told = 0
        """Calls that are complete, and told."""
        self._tokens: list[TracedToken] = []
        self._reason = "stop"
        self._usage = Usage()

    def opening(self) -> Iterable[Frame]:
        """Return nothing: each line has all that it needs."""
        return ()

    def event(self, event: Event) -> Iterator[Frame]:
        """Yield the lines of an event."""
        if isinstance(event, Piece):
            plain = ReadText(ReplyParts(content=event.text), event.tokens)
            yield from self._read(self._reader.push(event.text, event.tokens) if self._reader else plain)
            return
        if self._reader:
            yield from self._read(self._reader.flush())
        yield from self._complete(len(self._calls))
        self._reason, self._usage = FINISH[event.reason], event.usage

    def closing(self, memory: MemoryUse) -> Iterator[Frame]:
        """Yield the last line, with the figures."""
        yield Frame(self._line({"content": ""}) | self._end())

    def failing(self, error: ApiError) -> Iterable[Frame]:
        """Return an error as a line."""
        return [Frame({"error": error.message})]

    def whole(self, memory: MemoryUse) -> Any:
        """Return the reply."""
        fields: dict[str, Any] = {
            name: text for name, text in self._parts.items() if text or name == "content"
        }
        if self._calls:
            fields["tool_calls"] = [_call(at, one) for at, one in enumerate(self._calls)]
        return self._line(fields, self._tokens) | self._end()

    def _read(self, reading: ReadText) -> Iterator[Frame]:
        parts = reading.parts
        self._tokens += reading.tokens
        self._parts["content"] += parts.content
        self._parts["thinking"] += parts.reasoning
        if parts.content or parts.reasoning or (self._asked.logprobs and reading.tokens):
            thinking = {"thinking": parts.reasoning} if parts.reasoning else {}
            yield Frame(self._line({"content": parts.content, **thinking}, reading.tokens))
        for delta in parts.calls:
            yield from self._add(delta)

    def _add(self, delta: CallDelta) -> Iterator[Frame]:
        if delta.name is not None:
            yield from self._complete(len(self._calls))
            self._calls.append({"id": delta.id or "", "name": delta.name, "arguments": ""})
        self._calls[-1]["arguments"] += delta.arguments

    def _complete(self, calls: int) -> Iterator[Frame]:
        """Yield a line for each call that is complete: clients take one as it comes."""
        for at in range(self._told, calls):
            yield Frame(self._line({"content": "", "tool_calls": [_call(at, self._calls[at])]}))
        self._told = calls

    def _line(self, fields: dict[str, Any], tokens: Iterable[TracedToken] = ()) -> dict[str, Any]:
        head = {"model": self._asked.model, "created_at": now(), "done": False}
        if self._asked.logprobs and tokens:
            head["logprobs"] = content_logprobs(tokens, self._asked.top_logprobs or 0)
        if self._chat:
            return {**head, "message": {"role": "assistant", **fields}}
        return {**head, "response": fields.pop("content"), **fields}

    def _end(self) -> dict[str, Any]:
        usage = self._usage
        times = usage.queue_s, usage.prefill_s, usage.decode_s
        load, read, wrote = (round(one * _NS) for one in times)
        return {
            "done": True,
            "done_reason": self._reason,
            "total_duration": load + read + wrote,
            "load_duration": load,
            "prompt_eval_count": usage.prompt_tokens,
            "prompt_eval_duration": read,
            "eval_count": usage.completion_tokens,
            "eval_duration": wrote,
        }


def opened(model: str, *, chat: bool) -> dict[str, Any]:
    """Return the answer to a body that opens a model and asks nothing."""
    said: dict[str, Any] = {"message": {"role": "assistant", "content": ""}} if chat else {"response": ""}
    return {"model": model, "created_at": now(), **said, "done": True, "done_reason": "load"}


def _call(at: int, call: dict[str, str]) -> dict[str, Any]:
    try:
        values = json.loads(call["arguments"] or "{}")
    except ValueError:
        values = None
    arguments = values if isinstance(values, dict) else {_BROKEN: call["arguments"]}
    return {"id": call["id"], "function": {"index": at, "name": call["name"], "arguments": arguments}}
