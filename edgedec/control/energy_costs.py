"""Costs in joules, for control that minimises the energy of a token instead of its time."""

from __future__ import annotations

from collections.abc import Mapping

from edgedec.control.costs import Costs
from edgedec.control.linear_fit import between
from edgedec.core.experts import StoreCounts


class EnergyCosts:
    """Joules of passes: the seconds of ``curve``, times the watts of a pass over as many tokens.

    It stands in the place of a curve of seconds. Control weighs all prices against each other and against a
    plain pass, so their unit is of no account to it: what it reads as seconds are joules here, and the times
    that it hears are turned into joules by ``price`` before. A machine that slows down takes longer for all
    passes alike, which changes no decision.

    ``watts`` maps tokens of a pass to power above idle; between them, straight lines. Drafters are charged
    the power of a plain pass.
    """

    def __init__(self, curve: Costs, watts: Mapping[int, float]) -> None:
        """Raises ValueError without the watts of one token, and for watts that are not positive."""
        if 1 not in watts or min(watts.values()) <= 0.0:
            raise ValueError(f"energy costs need positive watts from one token on, not {dict(watts)}")
        self._curve = curve
        self._watts = [between(watts, tokens) for tokens in range(1, curve.longest + 1)]

    @property
    def longest(self) -> int:
        return self._curve.longest

    @property
    def plain(self) -> float:
        """Joules of a pass over one token."""
        return self.seconds(1)

    def seconds(self, tokens: int) -> float:
        """Joules of a pass over 1 to ``longest`` tokens. Raises ValueError outside."""
        return self.price(self._curve.seconds(tokens), tokens)

    def price(self, seconds: float, tokens: int = 1) -> float:
        """Joules of a pass over ``tokens`` that took ``seconds``, or of drafting that did."""
        return seconds * self._watts[tokens - 1]

    def expected(self, tokens: int, seconds: float, read: StoreCounts | None) -> float:
        """See ``Costs.expected``; seconds, not joules."""
        return self._curve.expected(tokens, seconds, read)

    def least_slope(self, more: int) -> float:
        """Joules per token beside the first, of the cheapest pass over at most 1 + ``more`` tokens."""
        most = min(more, self.longest - 1)
        slopes = ((self.seconds(1 + count) - self.plain) / count for count in range(1, most + 1))
        return max(min(slopes, default=0.0), 0.0)

    def observe(self, tokens: int, seconds: float) -> bool:
        """Record a pass over ``tokens`` that took so many joules; see ``CostCurve.observe``."""
        inside = 1 <= tokens <= self.longest
        return inside and self._curve.observe(tokens, seconds / self._watts[tokens - 1])

    @property
    def plain_is_unclear(self) -> bool:
        return self._curve.plain_is_unclear

    @property
    def level_is_old(self) -> bool:
        return self._curve.level_is_old

    def doubt_level(self) -> bool:
        """See ``CostCurve.doubt_level``."""
        return self._curve.doubt_level()

    @property
    def drift(self) -> float:
        return self._curve.drift

    def measured(self) -> dict[int, float]:
        """The seconds of the curve: only they are kept."""
        return self._curve.measured()
