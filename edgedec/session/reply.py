"""One streamed reply: tokens from the engine, text to the caller, stop strings cut out, time taken."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from edgedec.sampling import SamplingParams
from edgedec.telemetry.stats import Clock, ReplyStats, ReplyTimer
from edgedec.text.stop_strings import StopStrings

if TYPE_CHECKING:
    from edgedec.decode.engine import Engine
    from edgedec.session.trace import Traced
    from edgedec.text.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class Settings:
    """How replies are drawn and when they end."""

    params: SamplingParams = field(default_factory=SamplingParams)
    max_tokens: int = 256
    stops: tuple[str, ...] = ()


class _Interrupted(Exception):  # noqa: N818 - it is no error
    """Raised between two passes over the prompt."""


class Reply:
    """Iterate over it once to get the text as it becomes certain; the attributes follow along.

    ``finish_reason`` is None while it runs, then ``stop`` (an end token or a stop string), ``length``
    (``max_tokens``), ``context`` (the cache is full) or ``interrupted`` (``interrupt`` was called or the
    iteration was abandoned). The engine is consistent in every case.
    Raises what ``Engine.generate`` does for a prompt that is empty or does not fit.
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
        self._tokenizer = tokenizer
        self._max_tokens = settings.max_tokens
        self._stops = StopStrings(settings.stops)
        self._end_ids = frozenset(engine.spec.eos_ids)
        self._interrupted = False
        self._clock = clock
        self._timer: ReplyTimer | None = None
        self.prompt = list(prompt)
        self.reused = engine.reusable(self.prompt)
        self.tokens: list[int] = []
        """Every token drawn, the end token included."""
        self.sources: list[str | None] = []
        """Who drafted each of them; None: the target itself."""
        self.text = ""
        """What was shown: without end token and without stop string."""
        self.finish_reason: str | None = None
        self._steps = engine.generate(
            self.prompt,
            settings.params,
            max_tokens=settings.max_tokens,
            stop_ids=self._end_ids,
            progress=self._between_passes,
        )

    def interrupt(self) -> None:
        """Ask the reply to end after the pass in progress. Safe to call from a signal handler."""
        self._interrupted = True

    @property
    def stats(self) -> ReplyStats:
        """The numbers so far."""
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

    def trace(self) -> list[Traced]:
        """Every token with its text (the first of the tokens that make a character has none) and drafter."""
        from edgedec.session.trace import traced
        from edgedec.text.tokenizer import StreamDecoder

        decoder = StreamDecoder(self._tokenizer)
        texts = ["" if token in self._end_ids else decoder.push(token) for token in self.tokens]
        return traced(self.tokens, texts, self.sources)

    def __iter__(self) -> Iterator[str]:
        try:
            for piece in self._pieces():
                if piece:
                    self.text += piece
                    yield piece
        finally:
            self.finish_reason = self.finish_reason or "interrupted"

    def _pieces(self) -> Iterator[str]:
        from edgedec.text.tokenizer import StreamDecoder

        decoder = StreamDecoder(self._tokenizer)
        self._timer = ReplyTimer(prompt_tokens=len(self.prompt), reused_tokens=self.reused, clock=self._clock)
        with closing(self._steps), suppress(_Interrupted):
            for step in self._steps:
                self._timer.token()
                self.tokens.append(step.token)
                self.sources.append(step.source)
                if step.token not in self._end_ids:
                    yield self._stops.push(decoder.push(step.token))
                if self._ended(step.finish_reason):
                    break
        if self.finish_reason in ("stop", "length", "context"):
            yield self._stops.push(decoder.flush())
        yield self._stops.flush()

    def _ended(self, reason: str | None) -> bool:
        if self._stops.hit:
            self.finish_reason = "stop"
        elif reason == "length" and len(self.tokens) < self._max_tokens:
            self.finish_reason = "context"
        elif reason is not None:
            self.finish_reason = reason
        elif self._interrupted:
            self.finish_reason = "interrupted"
        return self.finish_reason is not None

    def _between_passes(self, done: int, total: int) -> None:
        if self._interrupted:
            raise _Interrupted
