"""How one reply is drawn, verified and ended: by the core."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from edgedec.core.model_spec import ModelSpec
from edgedec.core.rows import HeadRows, Rows
from edgedec.core.tree import ROOT, DraftTree
from edgedec.core_lib.at_one import entropy_bits, logprob_of
from edgedec.core_lib.needs import drawing_bytes, head_temperature, needs_logits
from edgedec.core_lib.reply import ReplyHandle, ReplyStart, Verified
from edgedec.decode.constrained import Ahead, go_on
from edgedec.decode.records import FinishReason, ReplyDetails, Step, Verdict
from edgedec.grammar.constraint import Constraint
from edgedec.sampling import DrawParams

_REASONS: tuple[FinishReason | None, ...] = (None, "stop", "length")
"""By ``core_lib.reply.Verified.end``."""


class ReplyPlan:
    """The settings of one reply, and what its draws read of the tokens so far.

    ``number``: replies of one engine are counted; only the newest may run.
    """

    def __init__(
        self, number: int, spec: ModelSpec, params: DrawParams, start: ReplyStart, details: ReplyDetails
    ) -> None:
        self.number = number
        self.end = start.end
        self.grammar = details.grammar
        """The grammar that tokens keep to, at the place behind those committed."""
        self._details, self._stop_ids = details, frozenset(start.stop_ids)
        self._walk = _Walk(self.grammar) if self.grammar else None
        self._handle = ReplyHandle(params, spec, start, self._walk)
        wants = {"logprobs": details.at_one, "masked": self.grammar is not None}
        self.drawing_bytes = spec.vocab_size * drawing_bytes(params, spec.head_k, **wants)
        """Bytes that drawing a token takes beside the head rows, at most."""
        full = needs_logits(params, spec.head_k, **wants)
        self._newest = Rows((0,), full=full, temperature=head_temperature(params))
        """The head row of the last committed token alone."""

    def rows(self, last: int, drafted: int, *, taps: tuple[int, ...] = ()) -> Rows:
        """The head rows to request: of the last committed token, at ``last``, and of the drafted ones.

        ``taps``: with the outputs of these layers.
        """
        if not (last or drafted or taps):
            return self._newest
        return replace(self._newest, indices=tuple(range(last, last + 1 + drafted)), taps=taps)

    def commit(self, step: Step) -> None:
        """Note a committed token."""
        self._handle.commit(step.token, step.bound)
        if self.grammar and step.token not in self._stop_ids:
            go_on(self.grammar, step.token)

    def verify(self, tree: DraftTree, head: HeadRows, position: int) -> tuple[Verdict, list[Step]]:
        """Verify ``tree``: the verdict, and the steps that commit it from ``position`` on.

        ``head`` row i + 1 answers node i, row 0 the last committed token. Raises the errors of
        ``ReplyHandle.verify``.
        """
        if self._walk is None:
            found = self._handle.verify(tree, head, position)
        else:
            with self._walk.ahead():
                found = self._handle.verify(tree, head, position)
        return Verdict(found.path, found.tokens), self._steps(found, tree, head, position)

    def _steps(self, found: Verified, tree: DraftTree, head: HeadRows, position: int) -> list[Step]:
        accepted, last = len(found.path), len(found.tokens) - 1
        before, count = (ROOT, *found.path), self._details.logprobs
        steps = []
        for at, token in enumerate(found.tokens):
            source = tree.sources[found.path[at]] if at < accepted else None
            row = before[at] + 1
            logprob, top = logprob_of(head, row, token, count) if count else (None, ())
            bits = entropy_bits(head, row) if self._details.entropy else None
            bound = found.bounds[at] if found.bounds else None
            reason = _REASONS[found.end] if at == last else None
            steps.append(Step(token, position + at, reason, source, logprob, top, bits, bound))
        return steps


class _Walk:
    """A grammar as the core asks it: ``core_lib.reply.ReplyGrammar``, while a walk ahead of it goes on."""

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

    def forced(self) -> int | None:
        forced = self._grammar.forced()
        return forced[0] if forced else None

    def permits(self, token: int) -> bool:
        return self._grammar.permits(token)

    def bits(self) -> NDArray[np.uint8]:
        return self._grammar.bits()
