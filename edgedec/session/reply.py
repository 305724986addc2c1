"""One streamed reply: tokens from the engine, text to the caller, and the time taken."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from inspect import GEN_RUNNING, getgeneratorstate
from typing import TYPE_CHECKING, Any
from weakref import ref

from edgedec.core.errors import GrammarError
from edgedec.decode.records import ReplyDetails
from edgedec.grammar import constraint_for, limited
from edgedec.metrics.marks import Marks
from edgedec.metrics.stats import Clock, ReplyStats, ReplyTimer
from edgedec.session.loops import TAIL_TOKENS, loops
from edgedec.session.public_names import public_names
from edgedec.session.reply_settings import Settings, Start

if TYPE_CHECKING:
    from edgedec.grammar import Constraint
    from edgedec.grammar.matcher import GrammarConstraint
    from edgedec.metrics.marks import CounterSnapshot
    from edgedec.session.engine import ReplyEngine
    from edgedec.session.healed import HealedSteps
    from edgedec.session.message import Message, ToolCall
    from edgedec.session.text_stream import TextStream
    from edgedec.session.token_logprob import TokenLogprob
    from edgedec.session.trace import Traced
    from edgedec.session.unbiased import UnbiasedTries
    from edgedec.text.thought_walk import ThoughtPlace, ThoughtWalk
    from edgedec.text.tokenizer import Tokenizer


__all__ = ["Reply", "Settings", "Start"]

_LOOK_EVERY_TOKENS = 32
_MARKS = 3
_SHOWN_CHARS = 60
"""Characters of its text that ``repr`` shows."""
_COMPLETE = ("stop", "length", "context", "loop")
"""Reasons after which half a character at the end is shown."""


_CUT = object()
"""The value of a reply that is not whole."""


class _Interrupted(Exception):  # noqa: N818 - it is no error
    """Raised between two passes over the prompt."""


def _nothing(reply: Reply) -> None:
    """Do nothing when a reply ends."""


class Reply:
    """A streamed reply: iterate over it once to get its text; the attributes follow along.

    ``finish_reason`` is None while it runs, then one of

    - ``stop``: an end token or a stop string,
    - ``length``: ``max_tokens``,
    - ``context``: the context is full, or the rest of it is kept for the next turn,
    - ``loop``: without ``max_tokens``, one piece of text came over and over (``session.loops``),
    - ``interrupted``: ``interrupt`` was called or the iteration was abandoned.

    The engine is consistent in every case. ``ended`` is called once with the reply when the iteration is
    over. Raises the errors of ``Engine.generate`` for a prompt that is empty or does not fit.

    A reply of a given form (``Settings.grammar``) has that form, or its iteration ends with a GrammarError;
    ``text`` has what there is. Raises the errors of ``constraint_for``.

    >>> reply = chat.reply("Hello!")
    >>> for piece in reply:
    ...     if len(reply.tokens) == 2:
    ...         reply.interrupt()
    >>> reply.finish_reason
    'interrupted'
    >>> reply.stats.completion_tokens
    2

    ``async for`` iterates in an event loop, where other tasks run meanwhile: each piece is computed in a
    thread. When the task is cancelled, the reply is interrupted and keeps what it has.

    >>> import asyncio
    >>> async def main():
    ...     async for piece in chat.reply("What is 2+2?"):
    ...         print(piece, end="")
    >>> asyncio.run(main())
    2 + 2 = 4
    """

    def __init__(
        self,
        engine: ReplyEngine,
        tokenizer: Tokenizer,
        start: Start,
        settings: Settings,
        *,
        ended: Callable[[Reply], None] = _nothing,
        clock: Clock = time.perf_counter,
    ) -> None:
        self._tokenizer = tokenizer
        self._stops = settings.stops
        self._spelled, self._channels = settings.spelled, settings.channels
        self._max_tokens = settings.max_tokens
        self._end_ids = start.ends.union(engine.home.spec.eos_ids)
        self._interrupted = False
        self.bound = start.bound
        """Mirostat's state behind the tokens so far."""
        self._on_end = ended
        self._clock = clock
        self._timer: ReplyTimer | None = None
        self._stream: TextStream | None = None
        self.params = settings.drawn
        """How its tokens are drawn."""
        self.form = settings.grammar
        """The form that it must have; None for any text."""
        self._value: Any = _CUT
        self.start = start
        self.prompt = [*start.prompt, *start.tokens]
        """Every token before this reply, or before this part of it."""
        self.reused = engine.reusable(self.prompt)
        self.tokens: list[int] = []
        """Every committed token, the end token included."""
        self.sources: list[str | None] = []
        """The drafter of each token; None for the target's own."""
        self.writers: list[str | None] = []
        """The model that wrote each token, where two take turns; else None."""
        self.logprobs: list[TokenLogprob] = []
        """Log-probabilities of the tokens, where ``settings.logprobs`` asks for them."""
        self._text = ""
        self.finish_reason: str | None = None
        self._mark = engine.mark
        self._marks: list[CounterSnapshot] = []
        form: GrammarConstraint | None = None
        grammar: Constraint | None = None
        if self.form:
            home = engine.home
            form = grammar = constraint_for(self.form, tokenizer, home.spec, home.ledger, start.tokens)
        self._thought: tuple[ThoughtWalk, ThoughtPlace, int] | None = None
        """The thinking part as far as ``stats`` has followed it, over so many tokens of this part."""
        if settings.thought and start.reader and (self.form is None or self.form.thinks):
            from edgedec.text.thought_walk import ThoughtWalk

            walk = ThoughtWalk(settings.thought, tokenizer, start.prompt)
            self._thought = walk, walk.along(walk.start, start.tokens), 0
            grammar = limited(walk, engine.home.spec.vocab_size, form, start.tokens)
        self._running: Callable[[], Generator[str, None, None] | None] = lambda: None
        """Returns the iteration, while there is one."""
        self._begun = False
        """Whether an iteration has begun."""
        self._awaited = False
        """Whether a worker thread has been asked for the next piece."""
        details = ReplyDetails(
            settings.logprobs or 0,
            grammar=None if settings.unbiased else grammar,
            start=len(start.prompt),
            bound=start.bound,
            turns=start.turns,
        )
        most = min(settings.max_tokens or engine.capacity, start.room or engine.capacity)
        self._tries: UnbiasedTries | None = None
        self._healed: HealedSteps | None = None
        if settings.unbiased and form:
            from edgedec.session.unbiased import Asked, UnbiasedTries

            asked = Asked(self.prompt, self.params, most, self._end_ids, self._between_passes, details)
            self._tries = UnbiasedTries(engine, asked, form)
            self._steps = self._tries.steps()
        elif start.held:
            from edgedec.session.healed import HealedSteps
            from edgedec.session.unbiased import Asked

            asked = Asked(self.prompt, self.params, most, self._end_ids, self._between_passes, details)
            self._healed = HealedSteps(engine, asked, start.held, tokenizer)
            self._steps = self._healed.steps()
        else:
            self._steps = engine.generate(
                self.prompt, self.params, max_tokens=most, stop_ids=self._end_ids,
                progress=self._between_passes, details=details,
            )  # fmt: skip

    def read(self) -> str:
        """Run the reply to its end and return its text."""
        for _ in self:
            pass
        return self._text

    @property
    def text(self) -> str:
        """The text shown so far, without end token and stop string; of a continued reply the new text.

        A reply over which nobody has iterated is read to its end first.

        >>> chat.reply("What is 2+2?").text
        'The answer to this classic math problem is 4.'
        """
        self._read_once()
        return self._text

    def __str__(self) -> str:
        """Return ``text``."""
        return self.text

    def _read_once(self) -> None:
        """Read a reply that nobody has begun to read: its values would be those of an empty one."""
        if not self._begun:
            self.read()

    def interrupt(self) -> None:
        """Ask the reply to end after the pass in progress. Safe to call from a signal handler."""
        self._interrupted = True

    @property
    def cut(self) -> bool:
        """Whether a limit or a stop string ended it, so that it may not have its form."""
        stopped = self._stream is not None and self._stream.stopped
        return stopped or self.finish_reason in ("length", "context", "loop")

    @property
    def stop(self) -> str | None:
        """The stop string that ended it; None for another end."""
        return (self._stream.stop or None) if self._stream else None

    @property
    def stats(self) -> ReplyStats:
        """The numbers so far."""
        if self._timer is None:
            return ReplyStats(len(self.prompt), self.reused, 0, 0.0, 0.0)
        stats = self._timer.stats(self._tries.cost if self._tries else None)
        return self._with_thought(replace(stats, prompt_tokens=len(self.prompt)) if self._healed else stats)

    def _with_thought(self, stats: ReplyStats) -> ReplyStats:
        """Return figures with those of the thinking part."""
        if self._thought is None:
            return stats
        walk, place, seen = self._thought
        place = walk.along(place, self.tokens[seen:])
        self._thought = walk, place, len(self.tokens)
        return replace(stats, thought_tokens=place.tokens, thought_closed=place.closed)

    @property
    def overlap(self) -> int:
        """Bytes of its first token that the text before it has already; see ``Start.held``."""
        return self._healed.overlap if self._healed else 0

    @property
    def marks(self) -> Marks | None:
        """The engine's counts at the start, after the first token and at the end; None before that."""
        return Marks(*self._marks) if len(self._marks) == _MARKS else None

    @property
    def exact(self) -> bool:
        """Whether the tokens decode to ``whole``: no stop string, no half character was cut."""
        return self.whole == self._tokenizer.decode([*self.start.tokens, *self.text_tokens], self._spelled)

    @property
    def whole(self) -> str:
        """The text from the beginning of the reply, also of a continued one, read as ``text`` is."""
        self._read_once()
        return self._stream.whole if self._stream else self.start.shown

    @property
    def message(self) -> Message:
        """The reply so far as a message: content, reasoning and tool calls are told apart.

        Its reasoning is the thinking part. Without tools there are no calls in it.
        """
        from edgedec.session.reply_syntax import read_whole
        from edgedec.text.reply_reader import reader_of

        return read_whole(self.start.reader() if self.start.reader else reader_of(None), self.whole)

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The calls of tools that the model asks for."""
        return self.message.tool_calls

    @property
    def text_tokens(self) -> list[int]:
        """``tokens`` without the end token."""
        return [token for token in self.tokens if token not in self._end_ids]

    @property
    def parsed(self) -> Any:
        """The value of a reply in JSON: of its schema's model class, or as ``json.loads`` has it; else None.

        A reply over which nobody has iterated is read to its end first. Raises GrammarError while one that
        was begun has not come to its end.

        >>> colour = {"type": "object", "properties": {"colour": {"type": "string"}}, "required": ["colour"]}
        >>> reply = model.chat(schema=colour).reply("What is the colour of grass?")
        >>> "colour" in reply.parsed
        True
        """
        if self.form is None:
            return None
        self._read_once()
        if self._value is _CUT:
            raise GrammarError(f"the reply is no whole {self.form.name} yet", hint="read it to its end")
        return self._value

    def trace(self) -> list[Traced]:
        """Every token with its text (the first of the tokens that make a character has none) and drafter."""
        from edgedec.session.trace import traced
        from edgedec.text.tokenizer import StreamDecoder

        decoder = StreamDecoder(self._tokenizer)
        if self._healed:
            decoder.go_on(self.overlap)
        texts = ["" if token in self._end_ids else decoder.push(token) for token in self.tokens]
        return traced(self.tokens, texts, self.sources, self.writers)

    def __iter__(self) -> Generator[str, None, None]:
        pieces = self._kept()
        self._begun = True
        self._running = ref(pieces)  # weak: an iteration that is abandoned ends
        return pieces

    def __aiter__(self) -> AsyncIterator[str]:
        """Iterate in an event loop; see ``edgedec.session.async_pieces``."""
        from edgedec.session.async_pieces import pieces_of

        return pieces_of(iter(self), self.interrupt, self._set_awaited)

    def _set_awaited(self, awaited: bool) -> None:
        self._awaited = awaited

    def __repr__(self) -> str:
        text = self._text if len(self._text) <= _SHOWN_CHARS else f"{self._text[:_SHOWN_CHARS]}..."
        return f"<Reply {text!r}: {len(self.tokens)} tokens, {self.finish_reason or 'not finished'}>"

    __dir__ = public_names(
        "finish_reason", "form", "interrupt", "logprobs", "message", "params", "parsed", "prompt", "read",
        "reused", "sources", "stats", "stop", "text", "tokens", "tool_calls", "trace", "whole", "writers",
    )  # fmt: skip

    @property
    def computing(self) -> bool:
        """Whether a thread computes it at this moment."""
        pieces = self._running()
        return self._awaited or (pieces is not None and getgeneratorstate(pieces) == GEN_RUNNING)

    def leave(self) -> None:
        """End an iteration that has begun where it stands, as if it had been abandoned."""
        if (pieces := self._running()) is not None:
            pieces.close()

    def _kept(self) -> Generator[str, None, None]:
        """Yield the pieces of text, and keep what they add up to."""
        try:
            for piece in self._pieces():
                if piece:
                    self._text += piece
                    yield piece
            self._check_form()
        finally:
            self.finish_reason = self.finish_reason or "interrupted"
            ended, self._on_end = self._on_end, _nothing  # it refers to the whole prompt
            ended(self)

    def _pieces(self) -> Iterator[str]:
        from edgedec.session.text_stream import TextStream

        start = self.start
        stream = TextStream(
            self._tokenizer,
            self._stops,
            start.tokens,
            start.shown,
            self._spelled,
            channels=self._channels,
        )
        self._stream = stream
        self._marks.append(self._mark())
        self._timer = ReplyTimer(prompt_tokens=len(self.prompt), reused_tokens=self.reused, clock=self._clock)
        timer, ends = self._timer, self._end_ids
        with closing(self._steps), suppress(_Interrupted):
            for step in self._steps:
                timer.token()
                if not self.tokens:
                    self._marks.append(self._mark())
                    if self._healed:
                        stream.go_on(self.overlap)
                token = step.token
                self.tokens.append(token)
                self.sources.append(step.source)
                self.writers.append(step.writer)
                self.bound = step.bound
                if step.logprob is not None:
                    self.logprobs.append(self._logprob(token, step.logprob, step.top))
                if token not in ends:
                    yield stream.push(token)
                if self._ended(step.finish_reason, stream.stopped):
                    break
        if self._interrupted and self.finish_reason is None:  # between two passes
            self.finish_reason = "interrupted"
        self._marks.append(self._mark())
        yield stream.flush(characters=self.finish_reason in _COMPLETE)

    def _check_form(self) -> None:
        """Raise GrammarError for a reply that ended without the form that it must have.

        One that was interrupted ended because the caller asked for it.
        """
        if self.form is None or self.finish_reason == "interrupted" or (self.form.cuttable and self.cut):
            return
        if self.cut and self.finish_reason == "stop":
            raise GrammarError(f"a stop string cut the reply of a {self.form.name}", hint="leave it out")
        if self.finish_reason != "stop":
            raise GrammarError(
                f"the reply is no whole {self.form.name}: it was cut after {len(self.tokens)} tokens "
                f"({self.finish_reason})",
                hint="allow more tokens, continue it, or bound the lengths in the form",
            )
        try:
            self._value = self.form.parse(self.whole)
        except ValueError as error:
            raise GrammarError(f"the reply has the form of the {self.form.name}, but {error}") from error

    def _logprob(self, token: int, logprob: float, top: Sequence[tuple[int, float]] = ()) -> TokenLogprob:
        from edgedec.session.token_logprob import TokenLogprob

        raw = self._tokenizer.token_bytes(token)
        if self.overlap and not self.logprobs:  # the first token, and those in its place
            raw = raw.removeprefix(self.start.held[-self.overlap :])
        others = tuple(self._logprob(other, value) for other, value in top)
        return TokenLogprob(token, raw.decode("utf-8", "replace"), logprob, others, raw)

    def _ended(self, reason: str | None, stopped: bool) -> bool:
        if stopped:
            self.finish_reason = "stop"
        elif reason == "length" and len(self.tokens) != self._max_tokens:
            self.finish_reason = "context"
        elif reason is not None:
            self.finish_reason = reason
        elif self._interrupted:
            self.finish_reason = "interrupted"
        elif self._max_tokens is None and len(self.tokens) % _LOOK_EVERY_TOKENS == 0 and self._loops():
            self.finish_reason = "loop"
        return self.finish_reason is not None

    def _loops(self) -> bool:
        tail = b"".join(map(self._tokenizer.token_bytes, self.tokens[-TAIL_TOKENS:]))
        return loops(self.tokens, tail)

    def _between_passes(self, done: int, total: int) -> None:
        if self._interrupted:
            raise _Interrupted
