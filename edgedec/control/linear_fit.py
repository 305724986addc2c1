"""Cost per call and per unit: a straight line through recent observations, and lines between points."""

from __future__ import annotations

from collections.abc import Mapping

_MEMORY = 0.95
"""Share of earlier observations that remains after one more."""


def between(points: Mapping[int, float], at: int) -> float:
    """Return the value at ``at`` on straight lines between ``points``; beyond the last one, its value."""
    below = max(point for point in points if point <= at)
    above = min((point for point in points if point >= at), default=below)
    if below == above:
        return points[below]
    return points[below] + (points[above] - points[below]) * ((at - below) / (above - below))


class Line:
    """Least squares with fading memory; neither part is ever negative."""

    def __init__(self) -> None:
        self._n = self._x = self._y = self._xx = self._xy = 0.0

    def observe(self, units: float, seconds: float) -> None:
        self._n = _MEMORY * self._n + 1.0
        self._x = _MEMORY * self._x + units
        self._y = _MEMORY * self._y + seconds
        self._xx = _MEMORY * self._xx + units * units
        self._xy = _MEMORY * self._xy + units * seconds

    def rescale(self, ratio: float) -> None:
        """Take earlier seconds times ``ratio``."""
        self._y, self._xy = ratio * self._y, ratio * self._xy

    @property
    def known(self) -> bool:
        return self._n > 0.0

    @property
    def calls(self) -> float:
        """Calls observed; earlier ones count for less."""
        return self._n

    @property
    def mean(self) -> float:
        """Seconds of one call, on average."""
        return self._y / self._n if self._n else 0.0

    @property
    def fixed(self) -> float:
        """Seconds of a call beside those per unit."""
        return max((self._y - self.slope * self._x) / self._n, 0.0) if self._n else 0.0

    def expected(self, units: float) -> float:
        """Seconds of a call of ``units``, at most: as if all of them cost per unit; 0 before any call."""
        return self._y * (1.0 + units) / (self._n + self._x) if self._n else 0.0

    def on_line(self, units: float) -> float:
        """Seconds of a call of ``units`` by the line."""
        return self.fixed + self.slope * units

    @property
    def slope(self) -> float:
        """Seconds per unit. Calls that all had as many units cannot tell: then all of it is per unit."""
        if not self._x:
            return 0.0
        spread = self._n * self._xx - self._x * self._x
        if spread < 1e-6 * self._n * self._xx:
            return self._y / self._x
        slope = (self._n * self._xy - self._x * self._y) / spread
        return min(max(slope, 0.0), self._y / self._x)
