"""Whether asking a drafter is worth its time, and how often to ask one that it is not.

Drafters that take next to no time are asked, and their drafts judged, fed or not: only their own time must
stay small, so after asking in vain they are asked in every second round, every fourth, and so on. Drafters
that take the time of passes (a small model) cannot be judged for nothing. They are arms of a bandit: a
discounted upper confidence bound (UCB1, Auer et al. 2002; discounted, Garivier and Moulines 2011) on the
tokens that asking gained, and what exploring may cost is bounded besides.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from edgedec.control.linear_fit import Line

_CHEAP = 0.05
"""Of a plain pass: what takes less is asked to be judged."""
_OUTLIER = 4.0
"""A call that took more times the usual was interrupted; what really is slower shows in a few calls."""
_OVERHEAD = 0.003
"""Of a plain pass, on average: what a drafter may take that is asked in vain."""
_RAREST = 32
_DEEPEST = 64
_PATIENCE = 4
"""Asked in vain so often before it is asked half as often."""

_DISCOUNT = 0.995
_WIDTH = 0.8
"""Of the confidence bound, in tokens."""
_FIRST = 6.0
_MOST = 24.0
_SHARE = 0.005
"""Of all passes: what exploring may lose; and what it may at once."""
_USUAL = 0.7
"""Of a costly drafter's tokens, how many are right while few were seen."""


class Caller:
    """One drafter, as seen from outside. Times in seconds; gains in tokens."""

    def __init__(self) -> None:
        self.cost = Line()
        self.unknown = True
        """Whether it is not known yet what a call takes."""
        self.seconds = 0.0
        """Of a call."""
        self._every = 1
        self._vain = 0
        self._last = 0
        self._pulls = 0.0
        self._gain = 0.0
        self._depths: list[tuple[float, float]] = []

    def took(self, depth: int, seconds: float) -> None:
        """A call that had little to read first drafted ``depth`` levels."""
        self.unknown = False
        usual = self.cost.expected(depth) if self.cost.known else seconds
        self.cost.observe(depth, min(seconds, _OUTLIER * usual))
        self.seconds = self.cost.mean

    def paused(self, turn: int) -> bool:
        """Whether rounds went by since it was asked: it has to read first what they committed."""
        return turn - self._last > 1

    def levels(self, spare: float) -> int:
        """How many levels of a draft take at most ``spare`` seconds."""
        per_level = self.cost.slope
        if per_level <= 0.0:
            return _DEEPEST if self.seconds <= spare else 0
        return min(int(max(spare - self.cost.fixed, 0.0) / per_level), _DEEPEST)

    def costly(self, plain: float) -> bool:
        """Whether a call is dear beside a pass that takes ``plain`` seconds."""
        return self.seconds > _CHEAP * plain

    def due_in(self, turn: int, plain: float) -> int:
        """Rounds from ``turn`` on until a cheap drafter is to be asked; 0 or less: now."""
        least = math.ceil(self.seconds / (_OVERHEAD * plain))
        return self._last + min(self._every, _RAREST, max(least, 1)) - turn

    def asked(self, turn: int, fed: bool) -> None:
        """In round ``turn``; ``fed``: some of what it drafted was worth feeding."""
        self._last = turn
        self._vain = 0 if fed else self._vain + 1
        if fed:
            self._every = 1
        elif self._vain >= _PATIENCE:
            self._every, self._vain = min(2 * self._every, _RAREST), 0

    def fade(self) -> None:
        """A round went by."""
        self._pulls *= _DISCOUNT
        self._gain *= _DISCOUNT

    def pulled(self, gain: float) -> None:
        """Asked as a costly one, which gained so many tokens above what the round's time is worth."""
        self._pulls += 1.0
        self._gain += gain

    @property
    def value(self) -> float:
        """What asking gains on average, without hope."""
        return self._gain / self._pulls if self._pulls else -math.inf

    def hope(self, rounds: float) -> float:
        """What asking gains at best, as far as ``rounds`` (discounted) can tell."""
        if self._pulls < 1e-3:
            return math.inf
        return self.value + _WIDTH * math.sqrt(2.0 * math.log(max(rounds, 2.0)) / self._pulls)

    def judged(self, depth: int, right: bool) -> None:
        """A token at ``depth``, whose parent was committed, was right or not."""
        while len(self._depths) <= depth:
            self._depths.append((4.0 * _USUAL, 4.0))
        hits, seen = self._depths[depth]
        self._depths[depth] = (0.98 * hits + right, 0.98 * seen + 1.0)

    def depth(self, limit: int, price: Callable[[int], float]) -> int:
        """The depth to draft to, 1 at least, when the level ``depth`` costs ``price(depth)`` tokens."""
        reach, gain, best, chosen = 1.0, 0.0, 0.0, 1
        for depth in range(1, limit + 1):
            hits, seen = self._depths[min(depth, len(self._depths)) - 1] if self._depths else (_USUAL, 1.0)
            reach *= hits / seen
            gain += reach - price(depth)
            if gain > best:
                best, chosen = gain, depth
        return chosen


class Exploring:
    """What trying costly drafters has lost, in plain passes, against knowing better; bounded."""

    def __init__(self) -> None:
        self._left = _FIRST
        self.rounds = 0.0

    def round(self, cost: float) -> None:
        """A round took as long as ``cost`` plain passes."""
        self.rounds = _DISCOUNT * self.rounds + 1.0
        self._left = min(self._left + _SHARE * cost, _MOST)

    @property
    def allowed(self) -> bool:
        return self._left > 0.0

    def lost(self, passes: float) -> None:
        """A try lost so much (gained, if negative)."""
        self._left = min(self._left - passes, _MOST)
