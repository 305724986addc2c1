"""Decoding with two models that take turns: a small one, and a large one where the text is hard. Lossy.

The committed tokens are the one truth, here too: those of the reply's own model. The model that was away
reads what it missed in passes as wide as they may be, so that it goes on exactly as if it had read all of it.
So the tokens follow from the committed ones, the seed and the rule, and not from drafts, passes or times.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import closing
from dataclasses import replace

from edgedec.control.switching import EntropySwitching
from edgedec.core.errors import UsageError
from edgedec.core.forward import Source
from edgedec.core.progress import Steps
from edgedec.core.quick_dataclass import dataclass
from edgedec.decode.checks import check_newest, check_request
from edgedec.decode.engine import Engine
from edgedec.decode.records import NO_DETAILS, ReplyDetails, Step
from edgedec.metrics.marks import CounterSnapshot
from edgedec.metrics.switched import SwitchRecord
from edgedec.sampling import DrawParams
from edgedec.switch.generators import TurnGenerator, TurnRequest

StepStream = Generator[Step, None, None]


class SwitchedEngine:
    """Generates one reply with two models in turn; ``home`` is the engine of the reply's own model.

    ``decide`` makes the rule of one reply. A model that can go on no further leaves the rest of the reply to
    the other one. ``beside`` is the engine of the small model, where that is not the reply's own: its work
    counts, too. ``clock`` in seconds.
    """

    policy = None
    """A full context ends a reply."""

    def __init__(
        self,
        home: Engine,
        small: TurnGenerator,
        large: TurnGenerator,
        decide: Callable[[], EntropySwitching],
        *,
        clock: Callable[[], float],
        beside: Engine | None = None,
    ) -> None:
        self.home = home
        self.small = small
        """The model that begins, unless the rule says otherwise."""
        self.large = large
        """The model of hard parts."""
        self._decide = decide
        self._clock = clock
        self._beside = beside
        self.committed: list[int] = []
        """The token sequence: prompt and reply. Not to be changed by callers."""
        self._replies = 0
        self.switched = self._new_record()
        """Figures of the latest reply."""

    @property
    def capacity(self) -> int:
        """Most tokens ``committed`` can have: those that the models here have room for."""
        return min(self.home.capacity, self._beside.capacity) if self._beside else self.home.capacity

    @property
    def slots(self) -> int:
        """Most tokens of a conversation."""
        return self.capacity

    def decide_by(self, decide: Callable[[], EntropySwitching]) -> None:
        """Let ``decide`` make the rules of replies to come: a study has many."""
        self._decide = decide

    def mark(self) -> CounterSnapshot:
        """See ``Engine.mark``. Counts of the small model stand beside those of the reply's own."""
        mark = self.home.mark()
        return replace(mark, small=self._beside.mark()) if self._beside else mark

    def reusable(self, prompt_ids: Sequence[int]) -> int:
        """Count the tokens of a prompt that the cache of the reply's own model holds."""
        return self.home.reusable(prompt_ids)

    def reset(self) -> None:
        """Forget the sequence."""
        self._replies += 1
        self.committed = []
        self.home.reset()

    def forget(self) -> None:
        """Empty the caches of both models."""
        self.reset()
        self.small.forget()
        self.large.forget()

    def resume(self, tokens: Sequence[int], source: Source) -> None:
        """See ``CachedSequence.resume``."""
        self._replies += 1
        self.committed = []
        self.home.resume(tokens, source)
        self.committed = list(tokens)

    def generate(
        self,
        prompt_ids: Sequence[int],
        params: DrawParams,
        *,
        max_tokens: int,
        stop_ids: Collection[int],
        progress: Steps | None = None,
        details: ReplyDetails = NO_DETAILS,
    ) -> StepStream:
        """See ``Engine.generate``. Steps have their ``writer``."""
        prompt = list(prompt_ids)
        check_request(
            prompt, self.home.spec, max_tokens=max_tokens, capacity=self.capacity, logprobs=details.logprobs
        )
        if details.logprobs:
            raise UsageError(
                "log-probabilities are those of one model, and two take turns", hint="leave one of both out"
            )
        if details.grammar or details.told:
            raise UsageError(
                "structured output is for the tokens of one model, and two take turns",
                hint="leave one of both out",
            )
        if params.logit_bias:
            raise UsageError(
                "a logit bias is for the tokens of one model, and two take turns",
                hint="leave one of both out",
            )
        self.committed = prompt
        self._replies += 1
        self.switched = self._new_record()
        end = min(len(prompt) + max_tokens, self.capacity)
        start = len(prompt) if details.start is None else details.start
        request = TurnRequest(params, end, frozenset(stop_ids), progress, turns=details.turns, start=start)
        return self._run(self._replies, request)

    def _new_record(self) -> SwitchRecord:
        """Return a record that only knows what a token of the large model takes, if that was measured."""
        speculation, elsewhere = self.home.speculation, self.large.elsewhere
        token_s = speculation.plain_s if speculation and not elsewhere else None
        return SwitchRecord(self.small.name, self.large.name, elsewhere=elsewhere, large_token_s=token_s)

    def _run(self, reply: int, request: TurnRequest) -> StepStream:
        check_newest(reply, self._replies)
        switching, alone = self._decide(), False
        generator = self.large if switching.large else self.small
        while True:
            turn = _Turn(generator, len(self.committed), alone)
            with closing(self._stretch(turn, switching, request)) as steps:
                for step in steps:
                    check_newest(reply, self._replies)
                    self.committed.append(step.token)
                    self.switched.of(generator.name).tokens += 1
                    yield step
                    if step.finish_reason:
                        return
            check_newest(reply, self._replies)
            stuck = not turn.asked and (generator is self.small or len(self.committed) == turn.start)
            if alone and stuck:
                return
            if turn.asked and not alone:
                switching.switch()
            elif not stuck:
                continue  # a model elsewhere wrote its stretch, and writes the next one too
            alone = alone or stuck
            generator = self.small if generator is self.large else self.large
            self.switched.switches += 1

    def _stretch(self, turn: _Turn, switching: EntropySwitching, request: TurnRequest) -> StepStream:
        """Write until the rule says otherwise and the text allows it, or the model can go on no further."""
        generator, small = turn.generator, not switching.large
        missed = generator.missing(self.committed) if self.switched.switches else 0
        began = self._clock()
        with closing(generator.generate(self.committed, request)) as chunks:
            for chunk in chunks:
                self._account(turn, self._clock() - began, missed)
                turn.asked = switching.add(chunk.entropy_bits) and not turn.alone
                hands_over = turn.asked and generator.may_stop(self.committed)
                if hands_over and small:
                    self.switched.dropped_tokens += 1
                    return
                yield from chunk.steps
                if hands_over:
                    return
                began = self._clock()

    def _account(self, turn: _Turn, seconds: float, missed: int) -> None:
        """Note the seconds of a token; the first one of a turn has ``missed`` tokens to read before it."""
        figures = self.switched.of(turn.generator.name)
        figures.own_tokens += 1
        if turn.begun:
            figures.rest_s += seconds
            return
        turn.begun = True
        figures.stretches += 1
        figures.first_s += seconds
        if turn.generator.elsewhere:
            self.switched.waited_s += seconds
        elif self.switched.switches:
            self.switched.catch_up_tokens += missed
            self.switched.catch_up_s += seconds


@dataclass(slots=True)
class _Turn:
    """A stretch of one generator, from the committed token ``start`` on."""

    generator: TurnGenerator
    start: int
    alone: bool
    """The other generator writes no more of this reply."""
    begun: bool = False
    asked: bool = False
    """Whether the rule wants the other generator to go on."""
