"""One streamed reply: tokens from the engine, text to the caller, stop strings cut out, time taken."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from edgedec.core.errors import ContextFullError, UsageError
from edgedec.sampling import SamplingParams
from edgedec.session.stop import StopStrings
from edgedec.telemetry.stats import Clock, ReplyStats, ReplyTimer

if TYPE_CHECKING:
    from edgedec.engine import Engine
    from edgedec.session.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class Settings:
    """How replies are drawn and when they end."""

    params: SamplingParams = field(default_factory=SamplingParams)
    max_tokens: int = 256
    stops: tuple[str, ...] = ()


class Reply:
    """Iterate over it once to get the text as it becomes certain; the attributes follow along.

    ``finish_reason`` is None while it runs, then ``stop`` (an end token or a stop string), ``length``
    (``max_tokens``), ``context`` (the cache is full) or ``interrupted`` (``interrupt`` was called or the
    iteration was abandoned). The engine is consistent in every case.
    Raises ContextFullError when the prompt leaves no room for a single token, UsageError for an empty prompt.
    """

    def __init__(
        self,
        engine: Engine,
        tokenizer: Tokenizer,
        prompt: Sequence[int],
        settings: Settings,
        *,
        clock: Clock = time.perf_counter,
    ) -> None:
        self._engine = engine
        self._tokenizer = tokenizer
        self._settings = settings
        self._stops = StopStrings(settings.stops)
        self._interrupted = False
        self._end_ids = frozenset(engine.spec.eos_ids)
        self._clock = clock
        self.prompt = list(prompt)
        self.reused = shared_prefix(engine.committed, self.prompt)
        self._check_room()
        self.tokens: list[int] = []
        """Every token drawn, the end token included."""
        self.text = ""
        """What was shown: without end token and without stop string."""
        self.finish_reason: str | None = None
        self._timer: ReplyTimer | None = None

    def interrupt(self) -> None:
        """Ask the reply to end after the token in progress. Safe to call from a signal handler."""
        self._interrupted = True

    @property
    def stats(self) -> ReplyStats:
        if self._timer is None:
            return ReplyStats(len(self.prompt), self.reused, 0, 0.0, 0.0)
        return self._timer.stats()

    @property
    def exact(self) -> bool:
        """Whether ``text`` is what ``said`` decodes to: no stop string, no half character was cut."""
        return self.text == self._tokenizer.decode(self.said)

    @property
    def said(self) -> list[int]:
        """``tokens`` without the end token."""
        return [token for token in self.tokens if token not in self._end_ids]

    def __iter__(self) -> Iterator[str]:
        try:
            for piece in self._pieces():
                if piece:
                    self.text += piece
                    yield piece
        finally:
            self.finish_reason = self.finish_reason or "interrupted"

    def _pieces(self) -> Iterator[str]:
        from edgedec.session.tokenizer import StreamDecoder

        decoder = StreamDecoder(self._tokenizer)
        self._timer = ReplyTimer(prompt_tokens=len(self.prompt), reused_tokens=self.reused, clock=self._clock)
        steps = self._engine.generate(
            self.prompt, self._settings.params, max_tokens=self._settings.max_tokens, stop_ids=self._end_ids
        )
        with closing(steps):
            for step in steps:
                self._timer.token()
                self.tokens.append(step.token)
                if step.token not in self._end_ids:
                    yield self._stops.push(decoder.push(step.token))
                if self._ended(step.finish_reason):
                    break
        if self.finish_reason != "interrupted":
            yield self._stops.push(decoder.flush())
        yield self._stops.flush()

    def _ended(self, finish_reason: str | None) -> bool:
        if self._stops.hit:
            self.finish_reason = "stop"
        elif finish_reason is not None:
            self.finish_reason = finish_reason
        elif self._interrupted:
            self.finish_reason = "interrupted"
        return self.finish_reason is not None

    def _check_room(self) -> None:
        if not self.prompt:
            raise UsageError("the prompt is empty", hint="there must be at least one token to continue")
        capacity = self._engine.capacity
        if len(self.prompt) >= capacity:
            raise ContextFullError(
                f"the prompt has {len(self.prompt)} tokens, and the context holds {capacity}",
                hint=_more_room(capacity, self._engine.spec.context_length),
            )


def shared_prefix(committed: Sequence[int], prompt: Sequence[int]) -> int:
    """How many tokens of ``prompt`` need not be fed again; the last one always is, for its logits."""
    most = min(len(committed), len(prompt) - 1)
    for index in range(most):
        if committed[index] != prompt[index]:
            return index
    return max(most, 0)


def _more_room(capacity: int, limit: int) -> str:
    if capacity < limit:
        return f"shorten it, or raise --context: this model was made for up to {limit}"
    return "shorten it: this is all the context the model was made for"
