"""A text completion: chunks of a stream, or one object."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from edgedec.server.wire.choices import ChoicesReply, finish_of
from edgedec.server.wire.completion_request import CompletionBody
from edgedec.server.wire.logprobs import text_logprobs
from edgedec.server.wire.parts import BeginReading
from edgedec.server.wire.reply_form import Frame
from edgedec.server.wire.usage import MemoryUse, together, usage_json
from edgedec.server.work.request import Event, Piece, TracedToken, Usage


class CompletionReply(ChoicesReply[CompletionBody]):
    """The completions of a body's prompt, by the model ``model``."""

    def __init__(self, body: CompletionBody, model: str, begin: BeginReading | None = None) -> None:
        super().__init__(body, model, prefix="cmpl", kind="text_completion")
        self._texts: list[list[str]] = [[] for _ in range(body.n)]
        self._tokens: list[list[TracedToken]] = [[] for _ in range(body.n)]
        self._offsets = [0] * body.n
        self._reasons: list[str | None] = [None] * body.n
        self._usages: list[Usage] = []

    def opening(self) -> Iterator[Frame]:
        """Yield the prompt, where it is to be echoed."""
        if self._asked.echo:
            for number in range(self._asked.n):
                yield self._chunk(self._choice(number, self._asked.text, []))

    def event(self, event: Event) -> Iterator[Frame]:
        """Yield the chunk of an event."""
        number = event.sample
        if isinstance(event, Piece):
            self._texts[number].append(event.text)
            self._tokens[number] += event.tokens
            if event.text or self._asked.logprobs is not None:
                yield self._chunk(self._choice(number, event.text, event.tokens))
                self._offsets[number] += sum(len(one.text) for one in event.tokens)
            return
        self._reasons[number] = event.reason
        self._usages.append(event.usage)
        yield self._chunk(self._choice(number, "", [], event.reason))

    def _usage(self, memory: MemoryUse) -> Any:
        return usage_json(together(self._usages), memory)

    def whole(self, memory: MemoryUse) -> Any:
        """Return the completion."""
        before = self._asked.text if self._asked.echo else ""
        self._offsets = [0] * self._asked.n
        choices = [
            self._choice(number, before + "".join(texts), self._tokens[number], self._reasons[number])
            for number, texts in enumerate(self._texts)
        ]
        return {**self._head, "choices": choices, "usage": self._usage(memory)}

    def _choice(
        self, number: int, text: str, tokens: Iterable[TracedToken], reason: str | None = None
    ) -> dict[str, Any]:
        finish, own = finish_of(reason)
        most = self._asked.logprobs
        logprobs = None if most is None else text_logprobs(tokens, self._offsets[number], most)
        return {"index": number, "text": text, "logprobs": logprobs, "finish_reason": finish, **own}
