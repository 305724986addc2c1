"""Records of a drafter's queries: what they take, what they gain, and when the next one is due.

Cheap drafters are queried and their drafts scored, fed or not. Only their own time must stay small: after
queries in vain they are queried in every second round, every fourth, and so on. Costly drafters (a draft
model) cannot be scored for nothing. They are arms of a bandit: a discounted upper confidence bound (UCB1,
Auer et al. 2002; discounted, Garivier and Moulines 2011) on the tokens that a query gained. Of a pretrained
drafter they are those that calibrated probabilities expect: accepted tokens vary too much to tell a good one
by a few queries. Of the others they are those that were accepted. An ``ExplorationBudget`` bounds what it may
cost to try costly drafters.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from edgedec.control.credit import LOSS_SHARE
from edgedec.control.linear_fit import Line

CHEAP_SHARE = 0.05
"""Drafters cheaper than this fraction of a plain pass are queried so that they can be scored."""
_LONG = 1.3
"""A call that took more times the usual was interrupted: it counts for so much."""
_INTERRUPTED = 3
"""Long calls in a row that no longer count as interruptions: the drafter slowed down."""
_OUTLIER = 3.0
"""Most times the usual that such a call counts for."""
_DOUBTED_PASSES = 18.0
"""Time of first calls that is not believed. Each took longer than a pass per level, which no draft is worth:
it may have been interrupted.
"""
_RETRIED_SHARE = 0.01
"""Fraction of all passes that may go into calls of a drafter that seems too dear."""
_VAIN_SHARE = 0.003
"""Fraction of a plain pass, on average, that a drafter may take that is queried in vain."""
_RAREST_ROUNDS = 32
_DEEPEST = 64
_PATIENCE = 4
"""Queries in vain before a drafter is queried half as often."""

_DISCOUNT = 0.995
_WIDTH_TOKENS = 0.8
"""Scale of the confidence bound."""
_EXPLORED_PASSES = 4.0
"""Most plain passes that exploration may lose at a time."""
_SHARE_OF_GAINS = 0.04
"""Fraction of what costly drafters gain that exploration may lose, too."""
_USUAL_RATE = 0.7
"""Acceptance rate assumed of a costly drafter while few of its tokens were seen."""


class Gains:
    """What queries of a costly drafter gained, in tokens above what the round's time is worth."""

    def __init__(self) -> None:
        self._pulls = self._sum = 0.0

    def fade(self) -> None:
        """Discount what was gained so far: a round went by."""
        self._pulls *= _DISCOUNT
        self._sum *= _DISCOUNT

    def gained(self, tokens: float) -> None:
        """Note a query."""
        self._pulls += 1.0
        self._sum += tokens

    @property
    def value(self) -> float:
        """Mean gain of a query."""
        return self._sum / self._pulls if self._pulls else -math.inf

    def hope(self, rounds: float) -> float:
        """Upper confidence bound of a query's gain after ``rounds`` (discounted) rounds."""
        if self._pulls < 1e-3:
            return math.inf
        return self.value + _WIDTH_TOKENS * math.sqrt(2.0 * math.log(max(rounds, 2.0)) / self._pulls)


class QueryRecord:
    """The record of one drafter. Times in seconds, gains in tokens."""

    def __init__(self) -> None:
        self.cost = Line()
        self.unknown = True
        """Whether no call was timed yet."""
        self.seconds = 0.0
        """Mean time of a call."""
        self._doubts = 0.0
        """Passes that calls took which were not believed."""
        self._long = 0
        """Calls in a row that took too long."""
        self._every = 1
        self._vain = 0
        self._last = 0
        self.gains = Gains()
        self._depths: list[tuple[float, float]] = []

    def took(self, depth: int, seconds: float, plain: float) -> float:
        """Note a call, with little to read first, that drafted ``depth`` levels.

        ``plain``: seconds of a pass over one token. Returns the seconds of it that are not charged: those
        beyond the usual ones. They follow if it goes on; one long call says nothing about the drafter.
        """
        if self.unknown and self._doubted(seconds / plain, depth):
            return seconds
        self.unknown = False
        known = max(self.cost.expected(depth), self.cost.on_line(depth))
        usual = known if self.cost.known else seconds
        self._long = self._long + 1 if seconds > _LONG * usual else 0
        most = _LONG if self._long < _INTERRUPTED else _OUTLIER
        self.cost.observe(depth, min(seconds, most * usual))
        self.seconds = self.cost.mean
        return max(seconds - usual, 0.0)

    def _doubted(self, passes: float, depth: int) -> bool:
        """Return whether a first call that took so long is not believed: one always, more that are short."""
        dear = passes > max(depth, 1)
        if dear and (not self._doubts or self._doubts + passes <= _DOUBTED_PASSES):
            self._doubts += passes
            return True
        return False

    def dear(self, most: float) -> bool:
        """Whether a level seems to take more than ``most`` seconds."""
        return not self.unknown and self.cost.slope > most

    def reconsider(self, turn: int, plain: float) -> None:
        """Forget what calls took where no draft is worth it, once another one costs little beside all passes.

        Else some interrupted calls would end a good drafter for good.
        """
        if turn - self._last > self.seconds / (_RETRIED_SHARE * plain):
            self.cost, self.seconds, self.unknown = Line(), 0.0, True

    def rescale(self, ratio: float) -> None:
        """Note that everything takes ``ratio`` times as long from now on."""
        self.cost.rescale(ratio)
        self.seconds *= ratio

    def paused(self, turn: int) -> bool:
        """Whether rounds went by without a query: their tokens have to be read first."""
        return turn - self._last > 1

    def levels(self, spare: float) -> int:
        """How many levels of a draft take at most ``spare`` seconds."""
        per_level = self.cost.slope
        if per_level <= 0.0:
            return _DEEPEST if self.seconds <= spare else 0
        return min(int(max(spare - self.cost.fixed, 0.0) / per_level), _DEEPEST)

    def costly(self, plain: float) -> bool:
        """Whether a call is dear beside a pass that takes ``plain`` seconds."""
        return self.seconds > CHEAP_SHARE * plain

    def due_in(self, turn: int, plain: float) -> int:
        """Rounds from ``turn`` on until a cheap drafter is due for a query; 0 or less: now."""
        least = math.ceil(self.seconds / (_VAIN_SHARE * plain))
        return self._last + min(self._every, _RAREST_ROUNDS, max(least, 1)) - turn

    def queried(self, turn: int, fed: bool) -> None:
        """Note a query in round ``turn``; ``fed``: some of its tokens were worth feeding."""
        self._last = turn
        self._vain = 0 if fed else self._vain + 1
        if fed:
            self._every = 1
        elif self._vain >= _PATIENCE:
            self._every, self._vain = min(2 * self._every, _RAREST_ROUNDS), 0

    def judged(self, depth: int, right: bool) -> None:
        """Note whether a token at ``depth``, whose parent was committed, was right."""
        while len(self._depths) <= depth:
            self._depths.append((4.0 * _USUAL_RATE, 4.0))
        hits, seen = self._depths[depth]
        self._depths[depth] = (0.98 * hits + right, 0.98 * seen + 1.0)

    def depth(self, limit: int, price: Callable[[int], float]) -> int:
        """The depth to draft to, 1 at least, when level ``depth`` costs ``price(depth)`` tokens."""
        reach, gain, best, chosen = 1.0, 0.0, 0.0, 1
        for depth in range(1, limit + 1):
            hits, seen = (
                self._depths[min(depth, len(self._depths)) - 1] if self._depths else (_USUAL_RATE, 1.0)
            )
            reach *= hits / seen
            gain += reach - price(depth)
            if gain > best:
                best, chosen = gain, depth
        return chosen


class ExplorationBudget:
    """Bound of the loss by trying costly drafters, in plain passes, against decoding without them."""

    def __init__(self) -> None:
        self._left = _EXPLORED_PASSES
        self.rounds = 0.0
        """Rounds so far, discounted."""

    def round(self, cost: float) -> None:
        """Note a round that took as long as ``cost`` plain passes."""
        self.rounds = _DISCOUNT * self.rounds + 1.0
        self._left = min(self._left + LOSS_SHARE * cost, _EXPLORED_PASSES)

    @property
    def allowed(self) -> bool:
        """Whether something is left to lose."""
        return self._left > 0.0

    def lost(self, passes: float) -> None:
        """Note what a try lost (gained, if negative)."""
        self._left = min(self._left - passes, _EXPLORED_PASSES)

    def gained(self, passes: float) -> None:
        """Note what a drafter that is known to pay gained or lost."""
        self.lost(-_SHARE_OF_GAINS * max(passes, 0.0))
