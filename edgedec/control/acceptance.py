"""Acceptance rates, by drafter and by the probability that it gave a token.

A drafted token counts when its parent was committed: then the next committed token shows whether it was
right, also for tokens that were never fed. So every queried drafter is scored, fed or not, at no cost.
(Counting by depth, too, was tried on recorded drafts of tables and of a draft model, and no better.)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from edgedec.core.calibration import Calibration
from edgedec.core.tree import ROOT, DraftTree

_STEPS = 10
_TRUST, _PRETRAINED_TRUST = 0.4, 0.8
"""Share of a drafter's own probability that counts before anything was observed: of one that knows nothing
yet, and of one that was pretrained.
"""
_PRIOR = 4.0
"""Observations that this prior weighs as much as."""
_MEMORY = 400.0
"""Observations after which older ones fade: text changes."""
_RECENT = 0.9
"""Weight of earlier tokens in a drafter's recent form, per scored token."""
_MODESTY = 8.0
"""The largest power that makes up for probabilities that are too low."""


class _Source:
    """Observations of one drafter's tokens."""

    def __init__(self, pretrained: bool) -> None:
        trust = _PRETRAINED_TRUST if pretrained else _TRUST
        guesses = [trust * (step + 0.5) / _STEPS for step in range(_STEPS + 1)]
        self.calibration = Calibration(guesses, prior=_PRIOR, memory=_MEMORY)
        self.counts = [[0, 0] for _ in range(_STEPS + 1)]
        self.recently_right = self.recently_expected = 0.0
        self.claimed = self.proved = _PRIOR / 2.0
        self.judged = _PRIOR
        self.form = 1.0

    def count(self, prob: float, right: bool) -> None:
        self.recently_expected = _RECENT * self.recently_expected + self.calibration.of(prob)
        self.recently_right = _RECENT * self.recently_right + right
        # How many of the latest tokens were right, of those that should have been; a little leniently.
        right_at_best = self.recently_right + 0.3 * math.sqrt(self.recently_expected)
        self.form = min((right_at_best + 1.0) / (self.recently_expected + 1.0), 1.0)
        self.claimed, self.proved = 0.99 * self.claimed + prob, 0.99 * self.proved + right
        self.judged = 0.99 * self.judged + 1.0
        step = self.calibration.step(prob)
        self.counts[step][0] += 1
        self.counts[step][1] += right
        self.calibration.count(prob, right)


class Acceptance:
    """Measured probabilities; ``calibrate`` is an argument of ``merged``.

    ``pretrained`` says whether a drafter was pretrained before its first query.
    """

    def __init__(self, pretrained: Callable[[str], bool] = lambda source: False) -> None:
        self._pretrained = pretrained
        self._sources: dict[str, _Source] = {}

    def calibrate(self, source: str, prob: float) -> float:
        """Probability that a token is right to which ``source`` gave ``prob``.

        The measured rate of tokens of about that probability, times the drafter's recent form, where a change
        of the text shows first.
        """
        known = self._of(source)
        return known.calibration.of(prob) * known.form

    def in_its_words(self, source: str, prob: float) -> float:
        """The probability that ``source`` states where ``prob`` is true, if it understates; else ``prob``."""
        known = self._of(source)
        claimed, right = known.claimed / known.judged, known.proved / known.judged
        if claimed >= right or prob <= 0.0:
            return prob
        return float(prob ** min(math.log(claimed) / math.log(min(right, 0.999)), _MODESTY))

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
            known = self._sources[source] = _Source(self._pretrained(source))
        return known
