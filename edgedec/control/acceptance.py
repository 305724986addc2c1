"""Acceptance rates, by drafter and by the probability that it gave a token.

A drafted token counts when its parent was committed: then the next committed token shows whether it was
right, also for tokens that were never fed. So every queried drafter is scored, fed or not, at no cost.
(Counting by depth, too, was tried on recorded drafts of tables and of a draft model, and no better.)
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from edgedec.core.calibration import Calibration
from edgedec.core.tree import ROOT, DraftTree

_STEPS = 10
_TRUST = 0.8
"""Share of a drafter's own probability that counts before anything was observed."""
_PRIOR = 4.0
"""Observations that this prior weighs as much as."""
_MEMORY = 400.0
"""Observations after which older ones fade: text changes."""
_RECENT = 0.9
"""Weight of earlier tokens in a drafter's recent form, per scored token."""


class _Source:
    """Observations of one drafter's tokens."""

    def __init__(self) -> None:
        guesses = [_TRUST * (step + 0.5) / _STEPS for step in range(_STEPS + 1)]
        self.calibration = Calibration(guesses, prior=_PRIOR, memory=_MEMORY)
        self.counts = [[0, 0] for _ in range(_STEPS + 1)]
        self.recently_right = self.recently_expected = 0.0
        self.form = 1.0

    def count(self, prob: float, right: bool) -> None:
        self.recently_expected = _RECENT * self.recently_expected + self.calibration.of(prob)
        self.recently_right = _RECENT * self.recently_right + right
        # How many of the latest tokens were right, of those that should have been; a little leniently.
        right_at_best = self.recently_right + 0.3 * math.sqrt(self.recently_expected)
        self.form = min((right_at_best + 1.0) / (self.recently_expected + 1.0), 1.0)
        step = self.calibration.step(prob)
        self.counts[step][0] += 1
        self.counts[step][1] += right
        self.calibration.count(prob, right)


class Acceptance:
    """Measured probabilities; ``calibrate`` is an argument of ``merged``."""

    def __init__(self) -> None:
        self._sources: dict[str, _Source] = {}

    def calibrate(self, source: str, prob: float) -> float:
        """Probability that a token is right to which ``source`` gave ``prob``.

        The measured rate of tokens of about that probability, times the drafter's recent form, where a change
        of the text shows first.
        """
        known = self._of(source)
        return known.calibration.of(prob) * known.form

    def observe(self, tree: DraftTree, committed: Sequence[int]) -> None:
        """``committed`` followed where ``tree`` was proposed."""
        right: list[bool] = []
        for node, (parent, depth) in enumerate(zip(tree.parents, tree.depths(), strict=True)):
            known = depth <= len(committed) and (parent == ROOT or right[parent])
            right.append(known and tree.tokens[node] == committed[depth - 1])
            if known:
                self._of(tree.sources[node]).count(tree.probs[node], right[node])

    def counts(self) -> dict[str, list[list[int]]]:
        """Return by drafter how many tokens were judged and how many of them right, in all.

        Entry i is about those to which the drafter gave a probability from i / 10 up; the last one, 1.
        """
        return {name: [list(pair) for pair in known.counts] for name, known in self._sources.items()}

    def _of(self, source: str) -> _Source:
        known = self._sources.get(source)
        if known is None:
            known = self._sources[source] = _Source()
        return known
