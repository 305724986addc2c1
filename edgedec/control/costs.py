"""Measured seconds of a pass over T tokens on this machine."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import accumulate
from typing import Protocol

from edgedec.control.linear_fit import between
from edgedec.core.experts import StoreCounts

USUAL_SPREAD = 0.3
"""Relative deviation of a time that is ordinary."""
_WEIGHT = 0.1
"""Weight of a new time among earlier ones: speeds change (heat, other programs)."""
_FIRST_WEIGHT = 0.3
"""Weight of the first time for a number of tokens; it falls with each further one."""
_OUTLIER = 3.0
_INTERRUPTED = 2
"""Passes in a row, each several times too long, that no longer count as interruptions."""
_KEEPING = 0.97
_FADE_EVERY = 16
"""Passes over one token after which the shape of the curve fades a little, so that costly sizes are tried
again.
"""
_UNCLEAR = 0.1
"""Movement of the curve (a logarithm) by passes over several tokens that makes the cost of one unclear."""
_LEVEL_PASSES = 3
"""Passes that show the level of an old curve, by their median."""
_SHARED = 0.5
"""Share of a deviation of a pass over several tokens that moves the whole curve; the rest moves its shape."""


class Costs(Protocol):
    """The costs that control reads; see ``CostCurve``."""

    @property
    def longest(self) -> int: ...

    @property
    def plain(self) -> float: ...

    def seconds(self, tokens: int) -> float: ...

    def price(self, seconds: float, tokens: int = 1) -> float: ...

    def expected(self, tokens: int, seconds: float, read: StoreCounts | None) -> float:
        """Return the seconds that count of a pass which took ``seconds`` and ``read`` experts: of its waits,
        those to expect.
        """
        ...

    def least_slope(self, more: int) -> float: ...

    def observe(self, tokens: int, seconds: float) -> bool: ...

    @property
    def plain_is_unclear(self) -> bool: ...

    @property
    def level_is_old(self) -> bool: ...

    def doubt_level(self) -> bool: ...

    @property
    def drift(self) -> float: ...

    def measured(self) -> dict[int, float]: ...


class CostCurve:
    """Times of passes over 1 to ``longest`` tokens; between measured numbers of tokens, straight lines.

    ``measured`` maps tokens to seconds, and must have 1 and ``longest``. Costs never fall with T. Later
    observations move all of the curve (a machine that slows down) and its shape near that number of tokens (a
    context that grows); a pass over one token moves all of it alike.

    ``old``: measured at another time, perhaps under another load. Only the shape counts then. The level is
    that of the first observations, over however many tokens.
    """

    def __init__(self, measured: Mapping[int, float], *, old: bool = False) -> None:
        finite = all(math.isfinite(time) and time > 0.0 for time in measured.values())
        if 1 not in measured or min(measured) < 1 or not finite:
            raise ValueError(f"a cost curve needs positive times from one token on, not {dict(measured)}")
        self._points = sorted(measured)
        self.longest = self._points[-1]
        self._first = [between(measured, tokens) for tokens in range(1, self.longest + 1)]
        self._level = 0.0
        self._shape = [0.0] * self.longest
        self._near = [_near(tokens, self.longest) for tokens in range(1, self.longest + 1)]
        self._strange = [0, 0]
        """Passes in a row that took several times too long: those with drafts, and plain ones."""
        self._awaited = _LEVEL_PASSES if old else 0
        self._levels: list[float] = []
        self._doubted = False
        """Whether plain passes are to show the level; the first of them may show that it has not changed."""
        self._level_of_one = 0.0
        self._seen = [0] * self.longest
        self._scale = 1.0
        self._bend()

    @property
    def plain(self) -> float:
        """Seconds of a pass over one token."""
        return self._scale * self._relative[0]

    def seconds(self, tokens: int) -> float:
        """Seconds of a pass over 1 to ``longest`` tokens. Raises ValueError outside."""
        if not 1 <= tokens <= self.longest:
            raise ValueError(f"a pass over {tokens} tokens is outside 1 to {self.longest}")
        return self._scale * self._relative[tokens - 1]

    def price(self, seconds: float, tokens: int = 1) -> float:
        """The cost of a pass over ``tokens``, or of drafting, that took ``seconds``: these seconds."""
        return seconds

    def expected(self, tokens: int, seconds: float, read: StoreCounts | None) -> float:
        """All ``seconds``: no pass waits for reads."""
        return seconds

    def least_slope(self, more: int) -> float:
        """Seconds per token beside the first, of the pass over at most 1 + ``more`` tokens where they are
        cheapest; 0 if there is no such pass.
        """
        if more not in self._slopes:
            first = self._relative[0]
            most = min(more, self.longest - 1)
            slopes = ((self._relative[count] - first) / count for count in range(1, most + 1))
            self._slopes[more] = min(slopes, default=0.0)
        return self._scale * self._slopes[more]

    def observe(self, tokens: int, seconds: float, *, plain: bool = False) -> bool:
        """Record a pass over ``tokens`` that took ``seconds``.

        Returns False for a single pass that took several times too long, which was interrupted and does not
        count. ``plain``: the pass of a batch without drafts; like a pass over one token it measures the speed
        of the machine, not the cost of more tokens.
        """
        if not 1 <= tokens <= self.longest or seconds <= 0.0:
            return False
        ratio = seconds / self.seconds(tokens)
        if self._awaited:
            self._take_level(self._level + math.log(ratio))
            return True
        alone = tokens == 1 or plain
        self._strange[alone] = self._strange[alone] + 1 if ratio > _OUTLIER else 0
        if 0 < self._strange[alone] < _INTERRUPTED:
            return False
        self._seen[tokens - 1] += 1
        weight = max(_WEIGHT, _FIRST_WEIGHT / math.sqrt(self._seen[tokens - 1]))
        if tokens == 1:
            self._see_one(math.log(ratio), weight)
        elif plain:
            self._level += weight * math.log(ratio)
        else:
            self._see_several(tokens, math.log(ratio), weight)
        self._scale = math.exp(self._level)
        return True

    def doubt_level(self) -> bool:
        """Take the level from the next passes, as for an old curve; from one alone if that is as usual.

        Returns whether they will be plain passes.
        """
        if not self._awaited:
            self._awaited, self._levels, self._doubted = _LEVEL_PASSES, [], True
        return True

    def _take_level(self, seen: float) -> None:
        """Set the level by a pass that ran at the level ``seen``: the median of all so far."""
        if self._doubted and not self._levels and abs(seen - self._level) < math.log(1.0 + USUAL_SPREAD):
            self._awaited, self._doubted = 0, False
            return
        self._levels.append(seen)
        self._level = self._level_of_one = sorted(self._levels)[len(self._levels) // 2]
        self._scale = math.exp(self._level)
        self._awaited -= 1
        self._doubted = self._doubted and self._awaited > 0

    def _see_one(self, off: float, weight: float) -> None:
        seen = self._level + off
        before = self._level_of_one
        if abs(seen - before) < abs(off):  # the deviation of passes over several tokens was not the machine
            for other in range(1, self.longest):
                self._shape[other] += self._level - before
            self._level = before
            self._bend()
        self._level += weight * (seen - self._level)
        self._level_of_one = self._level
        if self._seen[0] % _FADE_EVERY == 0:
            for other in range(1, self.longest):
                self._shape[other] *= _KEEPING
            self._bend()

    def _see_several(self, tokens: int, off: float, weight: float) -> None:
        self._level += _SHARED * weight * off
        more = (1.0 - _SHARED) * weight * off
        for place, near in self._near[tokens - 1]:
            self._shape[place] += near * more
            self._bent[place] = self._first[place] * math.exp(self._shape[place])
        self._rise()

    def _bend(self) -> None:
        """Apply a change of the whole shape."""
        pairs = zip(self._first, self._shape, strict=True)
        self._bent = [first * math.exp(shape) for first, shape in pairs]
        self._rise()

    def _rise(self) -> None:
        """Costs never fall with the number of tokens."""
        self._relative: list[float] = list(accumulate(self._bent, max))
        self._slopes: dict[int, float] = {}

    @property
    def plain_is_unclear(self) -> bool:
        """Whether a pass over one token should be measured again first."""
        return self._doubted or abs(self._level - self._level_of_one) > _UNCLEAR

    @property
    def level_is_old(self) -> bool:
        """Whether the curve waits for passes that show how quick the machine is now."""
        return self._awaited > 0

    @property
    def drift(self) -> float:
        """Largest relative distance from the initial curve: 0.15 is 15 % at some number of tokens."""
        pairs = zip(self._relative, accumulate(self._first, max), strict=True)
        return max(abs(self._scale * now / first - 1.0) for now, first in pairs)

    def measured(self) -> dict[int, float]:
        """The curve as it is now, to make another one with."""
        return {tokens: self.seconds(tokens) for tokens in self._points}


def _near(tokens: int, longest: int) -> list[tuple[int, float]]:
    """Indices of the curve that a pass over ``tokens`` tokens informs, with their shares."""
    near = ((other - 1, 1.0 - abs(math.log2(other / tokens))) for other in range(2, longest + 1))
    return [(place, share) for place, share in near if share > 0.0]
