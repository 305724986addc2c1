"""Decoding with two models that take turns: a small one, and a large one where the text is hard. Lossy.

The committed tokens are the one truth, here too: those of the reply's own model. The model that was away
reads what it missed in passes as wide as they may be, so that it goes on exactly as if it had read all of it.
So the tokens follow from the committed ones, the seed and the rule, and not from drafts, passes or times.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

from edgedec.control.switching import Switching
from edgedec.core.errors import UsageError
from edgedec.core.forward import Forward, Source
from edgedec.core.leasing import LedgerLike
from edgedec.core.model_spec import ModelSpec
from edgedec.core.passage import Turns
from edgedec.core.progress import Steps
from edgedec.decode.checks import check_newest, check_request
from edgedec.decode.engine import Engine
from edgedec.decode.records import Step
from edgedec.decode.speculation import Speculation
from edgedec.eviction.policy import Policy
from edgedec.metrics.marks import Mark
from edgedec.metrics.switched import SwitchRecord
from edgedec.sampling import DrawParams
from edgedec.switch.writers import Terms, Writer

_PATIENCE_TOKENS = 16
"""Tokens for which a hand-over waits for a boundary; then it takes place at any."""


class SwitchedEngine:
    """Generates one reply with two writers in turn; ``home`` is the engine of the reply's own model.

    ``decide`` makes the rule of one reply. A writer that can go on no further leaves the rest of the reply to
    the other one. ``clock`` in seconds.
    """

    def __init__(
        self,
        home: Engine,
        small: Writer,
        large: Writer,
        decide: Callable[[], Switching],
        clock: Callable[[], float],
    ) -> None:
        self._home = home
        self._small = small
        self._large = large
        self.decide = decide
        self._clock = clock
        self._committed: list[int] = []
        self._replies = 0
        self.record = SwitchRecord(small.name, large.name, elsewhere=large.elsewhere)
        """Figures of the latest reply."""
        self.most_tokens = home.capacity
        """Tokens that both models have room for; to be lowered before the first reply."""
        self._before: tuple[Turns, int] = ((), 0)
        self.beside: Engine | None = None
        """The engine of the small model, where that is not the reply's own; its work counts, too."""
        self.large_token_s: Callable[[], float | None] = lambda: None
        """Returns the seconds that the large model takes for a token alone, where that is known."""

    @property
    def spec(self) -> ModelSpec:
        return self._home.spec

    @property
    def ledger(self) -> LedgerLike:
        """The ledger of the reply's own model."""
        return self._home.ledger

    @property
    def policy(self) -> Policy | None:
        """None: a full context ends a reply."""
        return None

    @property
    def speculation(self) -> Speculation | None:
        """The drafters of the reply's own model."""
        return self._home.speculation

    @property
    def committed(self) -> Sequence[int]:
        """The token sequence: prompt and reply. Not to be changed by callers."""
        return self._committed

    @property
    def capacity(self) -> int:
        """Most tokens ``committed`` can have."""
        return min(self._home.capacity, self.most_tokens)

    @property
    def slots(self) -> int:
        """Most tokens of a conversation."""
        return self.capacity

    @property
    def portable(self) -> Forward | None:
        """The cache of the reply's own model, if it can be written to a file."""
        return self._home.portable

    @property
    def small(self) -> Writer:
        """The writer that begins, unless the rule says otherwise."""
        return self._small

    @property
    def large(self) -> Writer:
        """The writer of hard parts."""
        return self._large

    @property
    def switched(self) -> SwitchRecord:
        """Figures of the latest reply."""
        return self.record

    def mark(self) -> Mark:
        """See ``Engine.mark``. Counts of the small model stand beside those of the reply's own."""
        mark = self._home.mark()
        return replace(mark, small=self.beside.mark()) if self.beside else mark

    def reusable(self, prompt_ids: Sequence[int]) -> int:
        """Count the tokens of a prompt that the cache of the reply's own model holds."""
        return self._home.reusable(prompt_ids)

    def reset(self) -> None:
        """Forget the sequence."""
        self._replies += 1
        self._committed = []
        self._home.reset()

    def forget(self) -> None:
        """Empty the caches of both models."""
        self.reset()
        self._small.forget()
        self._large.forget()

    def resume(self, tokens: Sequence[int], source: Source) -> None:
        """See ``CachedSequence.resume``."""
        self._replies += 1
        self._committed = []
        self._home.resume(tokens, source)
        self._committed = list(tokens)

    def begin(self, turns: Turns, start: int) -> None:
        """See ``ReplyEngine.begin``."""
        self._before = turns, start

    def generate(
        self,
        prompt_ids: Sequence[int],
        params: DrawParams,
        *,
        max_tokens: int,
        stop_ids: Collection[int],
        progress: Steps | None = None,
        logprobs: int | None = None,
    ) -> Generator[Step, None, None]:
        """See ``Engine.generate``. Steps have their ``writer``."""
        prompt = list(prompt_ids)
        check_request(
            prompt, self.spec, max_tokens=max_tokens, capacity=self.capacity, logprobs=logprobs or 0
        )
        if logprobs:
            raise UsageError(
                "log-probabilities are those of one model, and two take turns", hint="leave one of both out"
            )
        self._committed = prompt
        self._replies += 1
        token_s, elsewhere = self.large_token_s(), self._large.elsewhere
        self.record = SwitchRecord(
            self._small.name, self._large.name, elsewhere=elsewhere, large_token_s=token_s
        )
        end = min(len(prompt) + max_tokens, self.capacity)
        turns, start = self._before
        self._small.rendered(turns, prompt[:start])
        terms = Terms(params, end, frozenset(stop_ids), progress, turns=turns, start=start)
        return self._run(self._replies, terms)

    def _run(self, reply: int, terms: Terms) -> Generator[Step, None, None]:
        check_newest(reply, self._replies)
        switching, alone = self.decide(), False
        writer = self._large if switching.large else self._small
        while True:
            turn = _Turn(writer, len(self._committed), alone)
            with closing(self._stretch(turn, switching, terms)) as steps:
                for step in steps:
                    check_newest(reply, self._replies)
                    self._committed.append(step.token)
                    self.record.of(writer.name).tokens += 1
                    yield step
                    if step.finish_reason:
                        return
            check_newest(reply, self._replies)
            stuck = not turn.asked and (writer is self._small or len(self._committed) == turn.start)
            if alone and stuck:
                return
            if turn.asked and not alone:
                switching.switch()
            elif not stuck:
                continue  # a model elsewhere wrote its stretch, and writes the next one too
            alone = alone or stuck
            writer = self._small if writer is self._large else self._large
            self.record.switches += 1

    def _stretch(self, turn: _Turn, switching: Switching, terms: Terms) -> Generator[Step, None, None]:
        """Write until the rule says otherwise and the text allows it, or the writer can go on no further."""
        writer, waited = turn.writer, 0
        missed = writer.missing(self._committed) if self.record.switches else 0
        began = self._clock()
        with closing(writer.write(self._committed, terms)) as pieces:
            for piece in pieces:
                self._account(turn, self._clock() - began, missed)
                yield from piece.steps
                turn.asked = switching.add(piece.entropy_bits) and not turn.alone
                waited = waited + 1 if turn.asked else 0
                if turn.asked and (writer.may_stop(self._committed) or waited > _PATIENCE_TOKENS):
                    self.record.dropped_tokens += writer.dropped
                    return
                began = self._clock()

    def _account(self, turn: _Turn, seconds: float, missed: int) -> None:
        """Note the seconds of a token; the first one of a turn has ``missed`` tokens to read before it."""
        figures = self.record.of(turn.writer.name)
        figures.own_tokens += 1
        if turn.begun:
            figures.rest_s += seconds
            return
        turn.begun = True
        figures.stretches += 1
        figures.first_s += seconds
        if turn.writer.elsewhere:
            self.record.waited_s += seconds
        elif self.record.switches:
            self.record.catch_up_tokens += missed
            self.record.catch_up_s += seconds


@dataclass(slots=True)
class _Turn:
    """A stretch of one writer, from the committed token ``start`` on."""

    writer: Writer
    start: int
    alone: bool
    """The other writer writes no more of this reply."""
    begun: bool = False
    asked: bool = False
    """Whether the rule wants the other writer to go on."""
