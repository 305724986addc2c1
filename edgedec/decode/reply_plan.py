"""The settings of one reply: the head rows that its draws need, its grammar, and its steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from edgedec.core.ledger import Ledger
from edgedec.core.rows import HeadRows, Rows
from edgedec.core.tree import ROOT
from edgedec.core_lib.at_one import entropy_bits, logprob_of
from edgedec.core_lib.engine import CoreEngine, Planned, ReplyStart, Verified
from edgedec.core_lib.needs import drawing_bytes, head_temperature, needs_logits
from edgedec.decode.constrained import Ahead, go_on
from edgedec.decode.passes import PassTime
from edgedec.decode.records import FinishReason, ReplyDetails, Step
from edgedec.sampling import DrawParams

if TYPE_CHECKING:
    from edgedec.grammar import Constraint

_REASONS: tuple[FinishReason | None, ...] = (None, "stop", "length")
"""By ``core_lib.engine.Verified.end``."""


class ReplyPlan:
    """The settings of one reply.

    ``number``: replies of one engine are counted; only the newest may run. ``core`` begins it.
    """

    def __init__(
        self,
        number: int,
        core: CoreEngine,
        params: DrawParams,
        start: ReplyStart,
        details: ReplyDetails,
        ledger: Ledger,
    ) -> None:
        self.number, self.core = number, core
        self.grammar, self._details, self._stop_ids = details.grammar, details, frozenset(start.stop_ids)
        self._walk = _Walk(details.grammar) if details.grammar else None
        core.begin(params, start, self._walk)
        spec = core.spec
        wants = {"logprobs": details.at_one, "masked": details.grammar is not None}
        self._drawing = ledger.lease("rows", spec.vocab_size * drawing_bytes(params, spec.head_k, **wants))
        """What drawing a token takes beside the head rows, at most."""
        self._limited = ledger.limited
        self._full = needs_logits(params, spec.head_k, **wants)
        self._temperature = head_temperature(params)
        self._newest = Rows(last=True, full=self._full, temperature=self._temperature, lent=True)
        self._wanted: dict[tuple[int, int, tuple[int, ...]], Rows] = {}

    def rows(self, planned: Planned, taps: tuple[int, ...] = ()) -> Rows:
        """Return the head rows to request: of the last committed token of a pass, and of the drafted ones.

        They are read before the next pass. ``taps``: with the outputs of these layers.
        """
        count = len(planned.tokens)
        if planned.piece:
            return Rows((), taps=taps)
        if count == 1 and not taps:
            return self._newest  # which forwards are quick with
        key = planned.waiting, count, taps
        if (found := self._wanted.get(key)) is None:
            indices = tuple(range(planned.waiting - 1, count))
            found = self._wanted[key] = replace(self._newest, indices=indices, last=False, taps=taps)
        return found

    def verified(self, head: HeadRows, time: PassTime | None) -> Verified:
        """Return the verdict on the planned pass; see ``CoreEngine.verify``. Settles it, too, with a time."""
        if not self._drawing.held:
            self._drawing.take()
        try:
            if self._walk is None:
                return self.core.finish(head, *time) if time else self.core.verify(head)
            with self._walk.ahead():
                return self.core.finish(head, *time) if time else self.core.verify(head)
        finally:
            if self._limited:
                self._drawing.release()

    def end(self) -> None:
        """Give back what draws take."""
        self._drawing.release()

    def commit(self, token: int) -> None:
        """Note a committed token, which moves the grammar on, if there is one."""
        if self.grammar and token not in self._stop_ids:
            go_on(self.grammar, token)

    def steps(
        self, found: Verified, head: HeadRows, position: int, sources: Sequence[str | None]
    ) -> list[Step]:
        """Return the steps that commit a verdict on ``head`` from ``position`` on.

        ``sources``: the drafters of its tokens. Raises the errors of ``logprob_of``.
        """
        reason, last = _REASONS[found.end], len(found.tokens) - 1
        details, bounds = self._details, found.bounds
        if details.told:
            for token, before in zip(found.tokens, (ROOT, *found.path), strict=False):
                details.told(head, before + 1, token)
        if not (bounds or details.at_one):
            return [
                Step(token, position + at, reason if at == last else None, sources[at])
                for at, token in enumerate(found.tokens)
            ]
        steps = []
        for at, (token, before) in enumerate(zip(found.tokens, (ROOT, *found.path), strict=False)):
            count = details.logprobs
            logprob, top = logprob_of(head, before + 1, token, count) if count else (None, ())
            bits = entropy_bits(head, before + 1) if details.entropy else None
            bound = bounds[at] if bounds else None
            ends = reason if at == last else None
            steps.append(Step(token, position + at, ends, sources[at], logprob, top, bits, bound))
        return steps


class _Walk:
    """A grammar as the core asks it: ``core_lib.grammar.ReplyGrammar``, while a walk ahead of it goes on."""

    def __init__(self, grammar: Constraint) -> None:
        self._grammar = grammar
        self._ahead = Ahead(grammar)

    def ahead(self) -> Ahead:
        """Begin a walk, which returns at the end of the block."""
        self._ahead = Ahead(self._grammar)
        return self._ahead

    def follow(self, tokens: Sequence[int]) -> bool:
        self._ahead.follow(tokens)
        return self._grammar.finished

    def forced(self) -> Sequence[int]:
        return self._grammar.forced()

    def permits(self, token: int) -> bool:
        return self._grammar.permits(token)

    def bits(self) -> NDArray[np.uint8]:
        return self._grammar.bits()
