"""What a pass over T tokens costs on this machine, in seconds, as measured."""

from __future__ import annotations

from collections.abc import Mapping

_WEIGHT = 0.1
"""Of a new time among the ones before: machines change their mind (heat, other programs)."""
_OUTLIER = 3.0


class CostCurve:
    """Times of passes over 1 to ``longest`` tokens; between measured numbers of tokens, straight lines.

    ``measured`` maps tokens to seconds, and must have 1 and ``longest``. Costs never fall with T.
    """

    def __init__(self, measured: Mapping[int, float]) -> None:
        if 1 not in measured or min(measured) < 1 or any(time <= 0.0 for time in measured.values()):
            raise ValueError(f"a cost curve needs positive times from one token on, not {dict(measured)}")
        self._points = dict(sorted(measured.items()))
        self._drift = 1.0

    @property
    def longest(self) -> int:
        return max(self._points)

    def seconds(self, tokens: int) -> float:
        """Of a pass over 1 to ``longest`` tokens."""
        if not 1 <= tokens <= self.longest:
            raise ValueError(f"a pass over {tokens} tokens is outside 1 to {self.longest}")
        return self._drift * self._shape(tokens)

    def observe(self, tokens: int, seconds: float) -> None:
        """A pass took so long. Single passes that took several times too long were interrupted."""
        if not 1 <= tokens <= self.longest or seconds > _OUTLIER * self.seconds(tokens):
            return
        if tokens in self._points:
            self._points[tokens] += _WEIGHT * (seconds / self._drift - self._points[tokens])
        else:
            self._drift *= 1.0 + 0.1 * _WEIGHT * (seconds / self.seconds(tokens) - 1.0)

    def _shape(self, tokens: int) -> float:
        below = max(point for point in self._points if point <= tokens)
        if below == tokens:
            return max(time for point, time in self._points.items() if point <= tokens)
        above = min(point for point in self._points if point > tokens)
        low, high = self._shape(below), self._shape(above)
        return low + (high - low) * (tokens - below) / (above - below)
