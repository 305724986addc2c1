"""A chat completion: chunks of a stream, or one object."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import field
from typing import Any

from edgedec.core.quick_dataclass import dataclass
from edgedec.server.wire.chat_request import ChatBody
from edgedec.server.wire.choices import ChoicesReply, finish_of
from edgedec.server.wire.logprobs import content_logprobs
from edgedec.server.wire.parts import BeginReading, ReadText, SampleReader
from edgedec.server.wire.reply_form import Frame
from edgedec.server.wire.usage import MemoryUse, together, usage_json
from edgedec.server.work.request import Event, Piece, TracedToken, Usage
from edgedec.text.tool_calls.scanner import CallDelta


@dataclass(slots=True)
class _Sample:
    """One reply so far."""

    reader: SampleReader
    reasoning: list[str] = field(default_factory=list)
    content: list[str] = field(default_factory=list)
    calls: list[dict[str, Any]] = field(default_factory=list)
    tokens: list[TracedToken] = field(default_factory=list)
    thought: int = 0
    reason: str | None = None
    usage: Usage | None = None

    def take(self, reading: ReadText) -> None:
        self.reasoning.append(reading.parts.reasoning)
        self.content.append(reading.parts.content)
        for delta in reading.parts.calls:
            if delta.name is not None:
                self.calls.append(_call(delta))
            else:
                self.calls[delta.index]["function"]["arguments"] += delta.arguments
        self.tokens += reading.tokens
        self.thought += reading.thought_tokens


class ChatReply(ChoicesReply[ChatBody]):
    """The replies to a body, of the model ``model``."""

    def __init__(self, body: ChatBody, model: str, begin: BeginReading) -> None:
        super().__init__(body, model, prefix="chatcmpl", kind="chat.completion.chunk")
        several = body.parallel_tool_calls
        self._samples = [_Sample(SampleReader(begin, several=several)) for _ in range(body.n)]

    def opening(self) -> Iterator[Frame]:
        """Yield a chunk with the role of each reply."""
        for number in range(len(self._samples)):
            yield self._chunk(self._choice(number, {"role": "assistant", "content": ""}))

    def event(self, event: Event) -> Iterator[Frame]:
        """Yield the chunks of an event."""
        sample = self._samples[event.sample]
        if isinstance(event, Piece):
            yield from self._pieces(event.sample, sample.reader.push(event.text, event.tokens))
            return
        yield from self._pieces(event.sample, sample.reader.flush())
        sample.reason, sample.usage = event.reason, event.usage
        yield self._chunk(self._choice(event.sample, {}, event.reason))

    def whole(self, memory: MemoryUse) -> Any:
        """Return the completion."""
        choices = [self._whole(number, sample) for number, sample in enumerate(self._samples)]
        head = {**self._head, "object": "chat.completion"}
        return {**head, "choices": choices, "usage": self._usage(memory)}

    def _pieces(self, number: int, reading: ReadText) -> Iterator[Frame]:
        self._samples[number].take(reading)
        parts = reading.parts
        if parts.reasoning:
            yield self._chunk(self._choice(number, {"reasoning_content": parts.reasoning}))
        if parts.content or (reading.tokens and (self._asked.logprobs or self._asked.edgedec.sources)):
            choice = self._choice(number, {"content": parts.content})
            yield self._chunk(choice | self._traced(reading.tokens))
        for delta in parts.calls:
            news = {"index": delta.index, "function": {"arguments": delta.arguments}}
            news = news if delta.name is None else {"index": delta.index, **_call(delta)}
            yield self._chunk(self._choice(number, {"tool_calls": [news]}))

    def _choice(self, number: int, delta: dict[str, Any], reason: str | None = None) -> dict[str, Any]:
        finish, own = finish_of(reason)
        if finish == "stop" and self._samples[number].calls:
            finish = "tool_calls"
        return {"index": number, "delta": delta, "logprobs": None, "finish_reason": finish, **own}

    def _whole(self, number: int, sample: _Sample) -> dict[str, Any]:
        content = "".join(sample.content)
        message: dict[str, Any] = {"role": "assistant", "content": content, "refusal": None}
        if sample.calls:
            message |= {"content": content or None, "tool_calls": sample.calls}
        if thought := "".join(sample.reasoning):
            message["reasoning_content"] = thought
        choice = self._choice(number, message, sample.reason)
        choice["message"] = choice.pop("delta")
        traced = self._traced(sample.tokens)
        if "edgedec" in traced:
            traced["edgedec"] |= choice.get("edgedec", {})
        return choice | traced

    def _traced(self, tokens: Iterable[TracedToken]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if self._asked.logprobs:
            found["logprobs"] = {
                "content": content_logprobs(tokens, self._asked.top_logprobs or 0),
                "refusal": None,
            }
        if self._asked.edgedec.sources:
            found["edgedec"] = {"tokens": [{"text": one.text, "source": one.source} for one in tokens]}
        return found

    def _usage(self, memory: MemoryUse) -> Any:
        usage = together([one.usage for one in self._samples if one.usage])
        return usage_json(usage, memory, sum(one.thought for one in self._samples))


def _call(delta: CallDelta) -> dict[str, Any]:
    function = {"name": delta.name, "arguments": delta.arguments}
    return {"id": delta.id, "type": "function", "function": function}
