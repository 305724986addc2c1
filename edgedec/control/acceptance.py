"""How often drafted tokens turn out right, by drafter and by the probability that it gave them.

A drafted token counts when its parent was committed: then the next committed token says whether it was
right, and that holds for tokens of a draft that were never fed, too. So a drafter that is off is still being
judged, for nothing, and comes on again when it would pay: there is nothing to explore.
"""

from __future__ import annotations

from collections.abc import Sequence

from edgedec.core.tree import ROOT, DraftTree

_STEPS = 10
_PRIOR = 8.0
"""The drafter's own estimate weighs as much as so many observations."""
_MEMORY = 400.0
"""Observations after which older ones fade: text changes."""


class Acceptance:
    """Measured probabilities; ``believe`` is what ``merged`` wants."""

    def __init__(self) -> None:
        self._right: dict[tuple[str, int], float] = {}
        self._seen: dict[tuple[str, int], float] = {}

    def believe(self, source: str, prob: float) -> float:
        """Probability that a token is right to which ``source`` gave ``prob``."""
        key = (source, int(prob * _STEPS))
        right, seen = self._right.get(key, 0.0), self._seen.get(key, 0.0)
        return (right + _PRIOR * prob) / (seen + _PRIOR)

    def observe(self, tree: DraftTree, committed: Sequence[int]) -> None:
        """``committed`` followed where ``tree`` was proposed."""
        level = ROOT
        for token in committed:
            following = None
            for node in tree.children(level):
                right = tree.tokens[node] == token
                self._count(tree.sources[node], tree.probs[node], right)
                if right and following is None:
                    following = node
            if following is None:
                return
            level = following

    def _count(self, source: str, prob: float, right: bool) -> None:
        key = (source, int(prob * _STEPS))
        seen = self._seen.get(key, 0.0) + 1.0
        hits = self._right.get(key, 0.0) + right
        if seen > _MEMORY:
            seen, hits = seen / 2.0, hits / 2.0
        self._seen[key], self._right[key] = seen, hits
