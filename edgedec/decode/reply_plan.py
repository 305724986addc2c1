"""How one reply is drawn, verified and ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace

from edgedec.core.model_spec import ModelSpec
from edgedec.core.quick_dataclass import dataclass
from edgedec.core.rows import HeadRows, Rows
from edgedec.core.tree import ROOT, DraftTree
from edgedec.decode.constrained import Ahead, go_on
from edgedec.decode.entropy import entropy_bits
from edgedec.decode.logprobs import logprob_of
from edgedec.decode.records import FinishReason, Step, StepDetails
from edgedec.grammar.constraint import Constraint
from edgedec.sampling import (
    DrawHistory,
    DrawParams,
    bound_after,
    draw,
    drawing_bytes,
    head_temperature,
    needs_logits,
)
from edgedec.verify import Verdict, keyed


@dataclass(slots=True)
class ReplyPlan:
    """The settings of one reply, and what its draws read of the tokens so far."""

    number: int
    """Replies of one engine are counted; only the newest may run."""
    spec: ModelSpec
    params: DrawParams
    end: int
    """Most tokens of the whole sequence."""
    stop_ids: frozenset[int]
    history: DrawHistory
    details: StepDetails
    bounds: list[float | None] = field(default_factory=list, init=False)
    """Mirostat's state before the latest verdict and after each of its tokens; None without it."""
    grammar: Constraint | None = field(init=False)
    """The grammar that tokens keep to, at the place behind those committed."""
    drawing_bytes: int = field(init=False)
    """Bytes that drawing a token takes beside the head rows, at most."""
    _newest: Rows = field(init=False)
    """The head row of the last committed token alone."""

    def __post_init__(self) -> None:
        self.grammar = self.details.grammar
        wants = {"logprobs": self.details.at_one, "masked": self.grammar is not None}
        self.drawing_bytes = self.spec.vocab_size * drawing_bytes(self.params, self.spec.head_k, **wants)
        full = needs_logits(self.params, self.spec.head_k, **wants)
        self._newest = Rows((0,), full=full, temperature=head_temperature(self.params))

    def rows(self, last: int, drafted: int, *, taps: tuple[int, ...] = ()) -> Rows:
        """The head rows to request: of the last committed token, at ``last``, and of the drafted ones.

        ``taps``: with the outputs of these layers.
        """
        if not (last or drafted or taps):
            return self._newest
        return replace(self._newest, indices=tuple(range(last, last + 1 + drafted)), taps=taps)

    def commit(self, step: Step) -> None:
        """Note a committed token."""
        self.history.add(step.token, step.bound)
        if self.grammar and step.token not in self.stop_ids:
            go_on(self.grammar, step.token)

    def verdict(self, tree: DraftTree, head: HeadRows, position: int) -> Verdict:
        """Verify ``tree``: the tokens to commit from ``position`` on, none behind the end.

        ``head`` row i + 1 answers node i, row 0 the last committed token. Raises BackendError as ``draw``
        does.
        """
        self.bounds[:] = [self.history.bound]
        if self.grammar:
            return self._permitted(self.grammar, tree, head, position)
        verdict = keyed(tree, lambda node, said: self._draw(head, node, said, position))
        return verdict.until(self.stop_ids, self.end - position)

    def _permitted(self, grammar: Constraint, tree: DraftTree, head: HeadRows, position: int) -> Verdict:
        """Verify ``tree`` under a grammar: nothing follows the token that finishes it."""
        most = self.end - position
        with Ahead(grammar) as ahead:

            def choose(node: int, said: Sequence[int]) -> int:
                nonlocal most
                ahead.follow(said)
                if said and grammar.finished:
                    most = min(most, len(said))
                    return said[-1]  # cut off below
                if forced := grammar.forced():
                    self.bounds.append(self.bounds[-1])
                    return forced[0]
                return self._draw(head, node, said, position)

            verdict = keyed(tree, choose)
        return verdict.until(self.stop_ids, most)

    def _draw(self, head: HeadRows, node: int, said: Sequence[int], position: int) -> int:
        history, at = self.history.after(said, self.bounds[-1]), position + len(said)
        token = draw(head, node + 1, self.params, at, history, self.grammar)
        if self.history.bound is not None:
            self.bounds.append(bound_after(head, node + 1, self.params, token, history, self.grammar))
        return token

    def _finishes(self, tokens: Sequence[int]) -> bool:
        """Whether nothing may follow ``tokens`` in the grammar."""
        if self.grammar is None or tokens[-1] in self.stop_ids:
            return False
        with Ahead(self.grammar) as ahead:
            ahead.follow(tokens)
            return self.grammar.finished

    def steps(self, verdict: Verdict, tree: DraftTree, head: HeadRows, position: int) -> list[Step]:
        """The steps that commit ``verdict``, the first of them at ``position``."""
        sources = [*(tree.sources[node] for node in verdict.path), None]
        before, count = (ROOT, *verdict.path), self.details.logprobs
        steps = []
        finished = len(verdict.tokens) if self._finishes(verdict.tokens) else 0
        for at, token in enumerate(verdict.tokens):
            reason: FinishReason | None = "length" if position + at + 1 == self.end else None
            if token in self.stop_ids or at + 1 == finished:
                reason = "stop"
            row = before[at] + 1
            logprob, top = logprob_of(head, row, token, count) if count else (None, ())
            bits = entropy_bits(head, row) if self.details.entropy else None
            bound = self.bounds[at + 1] if self.history.bound is not None else None
            steps.append(Step(token, position + at, reason, sources[at], logprob, top, bits, bound))
        return steps
