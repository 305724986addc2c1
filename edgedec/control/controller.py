"""What to draft in a round: whom to ask, how much to feed, and what came of it.

All times are handed in, in seconds. Decisions follow from them and from what was committed; there is no clock
and no chance in here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from edgedec.control.acceptance import Acceptance
from edgedec.control.costs import Costs
from edgedec.control.credit import Credit
from edgedec.control.linear_fit import Line
from edgedec.control.planner import NOTHING, Plan, least_reach, planned
from edgedec.control.queries import Caller, Exploring
from edgedec.core.tree import ROOT, DraftTree

_FADING = 0.99
"""Of the average rate: what remains of a round after one more."""
_SLACK = 0.5
"""Drafters may understate: what seems half as probable as it would have to be is still drafted."""
_OPEN_EVERY = 16
"""Rounds after which drafters may say whatever they think: only what they say can be judged."""
_PLAIN_EVERY = 128
"""Rounds after which one goes without drafts: only so it stays known what plain decoding costs."""
_TRY_DEPTH = 4
_USUAL = 0.3
"""How far times of passes scatter around what they usually are."""
_NAP = 4
"""Rounds after which it is looked again whether asking can be afforded."""
_GLANCE = 4
"""Of plain rounds in which nobody was asked, one in so many is looked at for its time."""
_HOPELESS = 0.65
"""Where tokens have to be more probable than this to pay, nobody is asked: what they win, learning takes. In
company a drafted token may take as long as one's own.
"""
_REST = 16
"""Rounds after which prices are looked at again where they were hopeless."""
_FEW = 2.0
"""Drafted tokens that must be affordable for asking to make sense."""
_READING = 2.0
"""Passes that count, at most, of what the first call in a sequence takes longer because it reads all of it:
that is a price of the reply, as the target's own reading is, and says nothing about drafts.
"""


@dataclass(frozen=True, slots=True)
class Request:
    """Ask drafter ``name`` for at most ``limit`` tokens, none whose path is less probable than ``floor``."""

    name: str
    limit: int
    floor: float


@dataclass(frozen=True, slots=True)
class RoundTimes:
    """Of one round: its pass (None: not measured), what drafting, learning and planning took, and what
    verifying took, which plain decoding does too, for one token."""

    passing: float | None
    drafting: float = 0.0
    verifying: float = 0.0


class Controller:
    """Plans rounds so that decoding is as quick as drafts allow, and never slower than without."""

    def __init__(self, costs: Costs, names: Sequence[str], limit: int) -> None:
        self.costs = costs
        self.acceptance = Acceptance()
        self.credit = Credit()
        self._limit = min(limit, costs.longest - 1)
        self._callers = {name: Caller() for name in names}
        self._exploring = Exploring()
        self._handling = Line()
        self._tokens = self._passes = 0.0
        self._turn = self._since_plain = 0
        self._fresh: set[str] = set(names)
        self._asked: list[str] = []
        self._tried: tuple[str, float, bool] | None = None
        """Whom of the costly ones, what there was without them, and whether that seemed as good."""
        self._reading = 0.0
        self._quiet_until = 0
        self.hopeless = False
        """Whether no draft can win what asking and learning take, at these prices."""
        self._costly: set[str] = set()
        """Those of whom one call is dear beside a plain pass."""

    @property
    def rate(self) -> float:
        """Tokens per second lately, by what passes cost; never less than plain decoding's."""
        per_pass = self._tokens / self._passes if self._passes else 1.0
        return max(per_pass, 1.0) / self.costs.plain

    @property
    def _due_plain(self) -> bool:
        """Whether it has become unclear what plain decoding costs."""
        return self._since_plain >= _PLAIN_EVERY or self.costs.plain_is_unclear

    def begin(self) -> None:
        """A new sequence."""
        self._fresh = set(self._callers)

    def rests(self) -> bool:
        """A new round; whether nobody is to be asked in it. Then ``rested`` is all there is to say of it."""
        self._turn += 1
        if self._turn >= self._quiet_until:
            self.hopeless = least_reach(self.costs, self._limit) >= _HOPELESS
            if self.hopeless:
                self._quiet_until = self._turn + _REST
        return self._turn < self._quiet_until and (self.hopeless or not self._costly)

    def cheap(self, room: int) -> list[Request]:
        """Whom to ask first in this round, for at most ``room`` tokens: those who cost next to nothing."""
        self._asked, self._tried, self._reading = [], None, 0.0
        if self._turn < self._quiet_until or self._due_plain:
            return []
        plain, spare = self.costs.plain, self._spare(room)
        waits = {
            name: caller.due_in(self._turn, plain) if caller.seconds < spare else _NAP
            for name, caller in self._callers.items()
            if name not in self._costly
        }
        soonest = min(waits.values(), default=_NAP)
        if soonest > 0:
            self._quiet_until = self._turn + soonest
            return []
        limit = min(room, self._limit)
        least = self._least(limit)
        return [self._request(name, limit, least) for name, wait in waits.items() if wait <= 0]

    def costly(self, plan: Plan, room: int) -> Request | None:
        """Whom to ask besides, when the others' drafts make ``plan``: the one who promises most above it."""
        if not self._costly:
            return None
        limit, spare = min(room, self._limit), self._spare(room)
        best, chosen = plan.gain, None
        for name, caller in self._callers.items():
            if name not in self._costly or name in self._asked or caller.levels(spare) < 1:
                continue
            hope = caller.hope(self._exploring.rounds)
            if hope > best and (caller.value > plan.gain or self._exploring.allowed):
                best, chosen = hope, name
        if chosen is None:
            return None
        self._tried = (chosen, plan.gain, self._callers[chosen].value <= plan.gain)
        return self._costly_request(chosen, min(limit, self._callers[chosen].levels(spare)))

    def asked(self, name: str, tree: DraftTree, seconds: float) -> None:
        """``name`` proposed ``tree``, which took so long."""
        caller, depth = self._callers[name], _depth(tree)
        fresh = name in self._fresh
        if fresh or (name in self._costly and caller.paused(self._turn)):
            reading = max(seconds - caller.cost.expected(depth), 0.0)
            self._reading += reading
            passes = reading / self.costs.plain
            self._exploring.lost(min(passes, _READING) if fresh else passes)
        else:
            caller.took(depth, seconds)
        if caller.costly(self.costs.plain):
            self._costly.add(name)
        else:
            self._costly.discard(name)
        self._fresh.discard(name)
        self._asked.append(name)

    def plan(self, tree: DraftTree) -> Plan:
        """How much of all drafts, merged, to feed."""
        if not len(tree):
            return NOTHING
        spare = max(self.credit.passes, 0.0) * self.costs.plain
        handling = self._handling.slope
        return planned(tree, self.costs, rate=self.rate, handling=handling, spare=spare)

    def settle(
        self, proposed: Sequence[DraftTree], fed: DraftTree, committed: Sequence[int], times: RoundTimes
    ) -> None:
        """A round with the drafts ``proposed`` fed ``fed`` and committed ``committed``."""
        if not self._asked and not len(fed):
            self.rested(times.passing)
            return
        for tree in proposed:
            self.acceptance.observe(tree, committed)
        drafted = len(fed)
        passing = self.costs.seconds(1 + drafted)
        if times.passing is not None:
            # What passes take somewhat longer or shorter than usual, and what an interruption takes, is the
            # machine's doing: it would use up the credit of good drafts. A curve that is wrong is not.
            wrong = abs(times.passing - passing) > _USUAL * passing
            if self.costs.observe(1 + drafted, times.passing) and drafted and wrong:
                passing = times.passing
            self._handling.observe(drafted, times.verifying)
        self._since_plain = self._since_plain + 1 if drafted else 0
        took = passing + times.drafting - self._reading + self._handling.slope * drafted
        self._account(fed, committed, took / self.costs.plain)
        for name in self._asked:
            self._callers[name].asked(self._turn, name in fed.sources)

    def rested(self, passing: float | None) -> None:
        """A plain round in which nobody was asked, ``passing`` seconds long if they were measured: it lost
        nothing, and little is made of it.
        """
        self._since_plain = 0
        if passing is not None and self._turn % _GLANCE == 0:
            self.costs.observe(1, passing)
        self.credit.book(1, 1.0)
        self._average(1, 1.0)
        if self._costly:
            self._fade(1.0)

    def _account(self, fed: DraftTree, committed: Sequence[int], cost: float) -> None:
        """The round took as long as ``cost`` plain passes."""
        tokens = len(committed)
        self.credit.book(tokens, cost)
        if self._tried:
            name, before, exploring = self._tried
            gain = tokens - 1 - self.rate * self.costs.plain * (cost - 1.0)
            self._callers[name].pulled(gain)
            self._judge(name, fed, committed)
            if exploring:
                self._exploring.lost(before - gain)
        if self._costly:
            self._fade(cost)
        self._average(tokens, cost)

    def _fade(self, cost: float) -> None:
        for caller in self._callers.values():
            caller.fade()
        self._exploring.round(cost)

    def _average(self, tokens: int, cost: float) -> None:
        self._tokens = _FADING * self._tokens + tokens
        self._passes = _FADING * self._passes + cost

    def _judge(self, name: str, fed: DraftTree, committed: Sequence[int]) -> None:
        level = ROOT
        for depth, token in enumerate(committed):
            drafted = [node for node in fed.children(level) if fed.sources[node] == name]
            following = fed.child(level, token)
            if drafted:
                self._callers[name].judged(depth, following is not None)
            if following is None:
                return
            level = following

    def _spare(self, room: int) -> float:
        """Seconds that asking may take now, so that some of what is drafted can be fed, too."""
        if room < 1 or self._due_plain:
            return 0.0
        fed = _FEW * self.costs.least_slope(self._limit)
        return self.credit.passes * self.costs.plain - fed

    def _least(self, limit: int) -> float:
        return least_reach(self.costs, limit, rate=self.rate, handling=self._handling.slope)

    def _request(self, name: str, limit: int, least: float) -> Request:
        caller = self._callers[name]
        if caller.unknown:
            return Request(name, min(limit, _TRY_DEPTH), 0.0)
        floor = _SLACK * least if self._turn % _OPEN_EVERY else 0.0
        return Request(name, limit, self.acceptance.in_its_words(name, floor))

    def _costly_request(self, name: str, limit: int) -> Request:
        caller = self._callers[name]
        depth = caller.depth(limit, partial(self._price, caller))
        return Request(name, min(2 * depth, limit), min(self._price(caller, depth), 1.0))

    def _price(self, caller: Caller, depth: int) -> float:
        """Tokens that the time is worth in which ``caller`` drafts level ``depth`` and a pass reads it."""
        more = self.costs.seconds(depth + 1) - self.costs.seconds(depth)
        return self.rate * (more + self._handling.slope + caller.cost.slope)


def _depth(tree: DraftTree) -> int:
    depths: list[int] = []
    for parent in tree.parents:
        depths.append(1 if parent == ROOT else depths[parent] + 1)
    return max(depths, default=0)
