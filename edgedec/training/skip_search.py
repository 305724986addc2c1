"""Search for the layers that drafts leave out (SWIFT, Xia et al. 2025): greedy, by predicted speed.

A model's exits divide its layers into spans, of which drafts can leave out any set but for the first and the
last one. A search begins with all spans and leaves out one after another, each time the one that promises
most with those left out already. So a model of 8 spans needs 21 of its 63 sets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

from edgedec.draft.exit import Way, skipping

Speeds = Callable[[Sequence[Way]], Mapping[Way, float]]
"""Measures ways; returns the predicted speed of each over plain decoding."""


def searched(exits: Sequence[int], speeds: Speeds) -> dict[Way, float]:
    """Return the speeds of all ways past layers that the search measured; none for a model of few exits.

    ``exits``: numbers of layers, ascending, the last one of all.
    """
    left = frozenset(pairwise(exits[:-1]))
    out: frozenset[tuple[int, int]] = frozenset()
    found: dict[Way, float] = {}
    while left:
        tried = {way_past(out | {span}): span for span in sorted(left)}
        measured = speeds(list(tried))
        found |= measured
        best = tried[max(tried, key=lambda way: measured[way])]
        out, left = out | {best}, left - {best}
    return found


def way_past(spans: frozenset[tuple[int, int]]) -> Way:
    """Return the way that leaves out spans; those side by side are one."""
    bounds: list[int] = []
    for start, end in sorted(spans):
        if bounds and bounds[-1] == start:
            bounds[-1] = end
        else:
            bounds += [start, end]
    return skipping(*bounds)
