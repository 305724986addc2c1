"""Times of passes of which a drafter computed a part.

A drafter that runs the target's own first layers (``Peeking.peek``) leaves the pass less to do. Its query and
such a pass share their work, so both are booked as they are:

    query   all of its seconds, as drafting
    pass    the share of an ordinary pass over as many tokens that it takes, times the curve's seconds

The shares are measured. They say nothing about the machine's speed, so the curve learns it from these passes,
too: a pass counts as an ordinary one would have taken, once its share is known.
"""

from __future__ import annotations

from edgedec.control.costs import USUAL_SPREAD, Costs

_KNOWN = 8
"""Passes after which a share is known well enough to tell the machine's speed."""
_LEAST_WEIGHT = 0.02
_INTERRUPTED = 3.0
"""A pass that took as many times an ordinary one was interrupted."""


class Reuse:
    """Shares of an ordinary pass that passes take, by their tokens and those computed in part."""

    def __init__(self) -> None:
        self._shares: dict[tuple[int, int], tuple[float, int]] = {}

    def expected(self, costs: Costs, tokens: int, reused: int) -> float:
        """Seconds that a pass over ``tokens`` usually takes, ``reused`` of them computed in part."""
        share, _ = self._shares.get((tokens, reused), (1.0, 0))
        return share * costs.seconds(tokens)

    def known(self, tokens: int, reused: int) -> bool:
        """Whether such a pass was seen before."""
        return (tokens, reused) in self._shares

    def passing(self, costs: Costs, tokens: int, reused: int, seconds: float | None) -> float:
        """Seconds to charge for a pass over ``tokens``, ``reused`` of them computed in part, and learn.

        ``seconds``: those measured; None: the usual ones are charged.
        """
        ordinary = costs.seconds(tokens)
        share, seen = self._shares.get((tokens, reused), (1.0, 0))
        if seconds is None or seconds > _INTERRUPTED * ordinary:
            return share * ordinary
        if seen >= _KNOWN:
            costs.observe(tokens, seconds / share)
        weight = max(1.0 / (seen + 1), _LEAST_WEIGHT)
        self._shares[tokens, reused] = (share + weight * (seconds / ordinary - share), seen + 1)
        usual = share * ordinary
        return seconds if not seen or abs(seconds - usual) > USUAL_SPREAD * usual else usual
