"""The controller: its measurements over all rounds, and the limits and prices that follow from them.

All times are handed in, in seconds. Decisions follow from them and from the committed tokens; there is no
clock and no randomness in here. ``Controller.round`` makes one round, see ``controlled_round``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial

from edgedec.control.acceptance import Acceptance
from edgedec.control.controlled_round import ControlledRound, RestingRound
from edgedec.control.costs import Costs
from edgedec.control.credit import Credit
from edgedec.control.linear_fit import Line
from edgedec.control.planner import NOTHING, FeedPlan, feed_plan, least_reach
from edgedec.control.query_record import ExplorationBudget, QueryRecord
from edgedec.control.reuse import Reuse
from edgedec.control.round import Query, Round
from edgedec.core.tree import DraftTree

_FADING = 0.99
"""Share of the average rate that remains after one more round."""
_SLACK = 0.5
"""Drafters may understate: a path is drafted that seems half as probable as it would have to be."""
_SAMPLED_ROUNDS = 4
"""One in this many plain rounds without a query is measured."""
_OPEN_EVERY_ROUNDS = 16
"""Rounds after which drafters are queried without a floor: only what they propose can be scored."""
_PLAIN_EVERY_ROUNDS = 128
"""Rounds after which one goes without drafts, to measure plain decoding."""
_TRY_DEPTH = 4
_FIRST_LEVELS = 1
"""Levels of the first draft of a drafter that is costly for sure."""
_NAP_ROUNDS = 4
"""Rounds until it is checked again whether a query can be afforded."""
_UNPROFITABLE = 0.65
"""Where tokens have to be more probable than this to pay, nobody is queried: learning takes what they gain.
In a batch a drafted token may take as long as one's own.
"""
_REST_ROUNDS = 16
"""Rounds until costs are checked again where they were unprofitable."""
_USUAL_SPREAD = 0.3
"""Relative deviation of a pass's time that is ordinary."""
_MOST_OVERHEAD = 0.05
"""Most passes that one token's verification is believed to take."""
_FEW_TOKENS = 2.0
"""Drafted tokens that must be affordable for a query to make sense."""


class Controller:
    """Plans rounds so that decoding is as quick as drafts allow, and never slower than without."""

    def __init__(
        self,
        costs: Costs,
        names: Sequence[str],
        limit: int,
        *,
        peeking: Collection[str] = (),
        pretrained: Callable[[str], bool] = lambda name: False,
    ) -> None:
        """``peeking``: drafters whose queries compute parts of the pass that follows; costly, always.

        ``pretrained``: see ``Acceptance``.
        """
        self.costs = costs
        self.peeking = frozenset(peeking)
        self.reuse = Reuse()
        """Times of passes behind their queries."""
        self.acceptance = Acceptance(pretrained)
        self.credit = Credit()
        self.records = {name: QueryRecord() for name in names}
        self.exploration = ExplorationBudget()
        self.verify_overhead = Line()
        """Seconds of verification per drafted token."""
        self.turn = 0
        """Rounds so far."""
        self.since_plain = 0
        """Rounds since the last one without drafts."""
        self.quiet_until = 0
        """The round before which no cheap drafter is queried."""
        self.fresh = set(names)
        """Drafters that have not been queried in this sequence."""
        self.costly = set(peeking)
        """Drafters of which one call is dear beside a plain pass."""
        self.unprofitable = False
        """Whether no draft can win what querying and learning take, at these costs."""
        self.stop_ids: Collection[int] = ()
        self._limit = min(limit, costs.longest - 1)
        self._tokens = self._passes = 0.0
        self._long_passes = 0
        """Passes in a row that took longer than usual."""

    def begin(self, stop_ids: Collection[int]) -> None:
        """Start a new sequence, which ends with any token of ``stop_ids``."""
        self.fresh = set(self.records)
        self.stop_ids = stop_ids
        self.exploration.begin()
        for record in self.records.values():
            record.begin()

    def drop(self, name: str) -> None:
        """Forget a drafter that is gone: it is queried no more."""
        self.records.pop(name, None)
        self.costly.discard(name)
        self.fresh.discard(name)

    def round(self, room: int) -> Round:
        """Start the next round, which may feed ``room`` drafted tokens."""
        self.turn += 1
        if self.turn >= self.quiet_until:
            self.unprofitable = least_reach(self.costs, self._limit) >= _UNPROFITABLE
            if self.unprofitable:
                self.quiet_until = self.turn + _REST_ROUNDS
        if self.turn < self.quiet_until and (self.unprofitable or not self.costly):
            return RestingRound(self)
        return ControlledRound(self, room)

    @property
    def rate(self) -> float:
        """Tokens per second lately, by what passes cost; never less than plain decoding's."""
        per_pass = self._tokens / self._passes if self._passes else 1.0
        return max(per_pass, 1.0) / self.costs.plain

    @property
    def _due_plain(self) -> bool:
        """Whether it has become unclear what plain decoding costs."""
        return self.since_plain >= _PLAIN_EVERY_ROUNDS or self.costs.plain_is_unclear

    def cheap_queries(self, room: int) -> list[Query]:
        """Queries to begin a round with: those of drafters that cost next to nothing, as far as due."""
        if self.turn < self.quiet_until or self._due_plain:
            return []
        plain, spare = self.costs.plain, self._spare(room)
        waits = {
            name: record.due_in(self.turn, plain) if record.seconds < spare else _NAP_ROUNDS
            for name, record in self.records.items()
            if name not in self.costly
        }
        soonest = min(waits.values(), default=_NAP_ROUNDS)
        if soonest > 0:
            self.quiet_until = self.turn + soonest
            return []
        limit = min(room, self._limit)
        least = least_reach(self.costs, limit, rate=self.rate, verify_overhead=self.verify_overhead.slope)
        return [self._cheap_query(name, limit, least) for name, wait in waits.items() if wait <= 0]

    def costly_query(self, plan: FeedPlan, room: int, queried: Collection[str]) -> Query | None:
        """The query of the costly drafter that promises most above ``plan``, made of the others' drafts."""
        limit, spare = min(room, self._limit), self._spare(room)
        if not self.costly or spare <= 0.0:
            return None
        best, chosen = plan.gain, None
        for name, record in self.records.items():
            if name not in self.costly or name in queried:
                continue
            record.reconsider(self.turn, self.costs.plain)
            if record.levels(spare) < 1:
                continue
            hope = record.hope(self.exploration.rounds)
            known = record.value > self.gain_without(name, plan)
            if hope > best and (known or record.trying or self.exploration.allowed):
                best, chosen = hope, name
        if chosen is None:
            return None
        record = self.records[chosen]
        if record.unknown:
            return Query(chosen, min(limit, _FIRST_LEVELS), 0.0)
        limit = min(limit, record.levels(spare))
        depth = record.depth(limit, partial(self._price, record))
        return Query(chosen, min(2 * depth, limit), min(self._price(record, depth), 1.0))

    def gain_without(self, name: str, plan: FeedPlan) -> float:
        """The gain of ``plan``, or of the query of another costly drafter than ``name`` that gains more."""
        values = (self.records[other].value for other in self.costly if other != name)
        return max((plan.gain, *values))

    def plan(self, tree: DraftTree) -> FeedPlan:
        """Choose how much of a merged draft to feed."""
        if not len(tree):
            return NOTHING
        spare = max(self.credit.passes, 0.0) * self.costs.plain
        return feed_plan(
            tree, self.costs, rate=self.rate, verify_overhead=self.verify_overhead.slope, spare=spare
        )

    def classify(self, name: str) -> None:
        """Note whether a call of this drafter is costly now."""
        if name in self.peeking or self.records[name].costly(self.costs.plain):
            self.costly.add(name)
        else:
            self.costly.discard(name)
        self.fresh.discard(name)

    def rested(self, passing: float | None) -> None:
        """Note a round in which nobody was queried; ``passing``: seconds of its pass, None if not measured.

        It lost nothing, and little is made of it.
        """
        self.since_plain = 0
        sampled = self.turn % _SAMPLED_ROUNDS == 0 or self.costs.level_is_old
        if passing is not None and sampled:
            self.costs.observe(1, passing)
        self.credit.book(1, 1.0)
        self.average(1, 1.0)
        self.fade(1.0)

    def charged(self, seconds: float, usual: float) -> float:
        """Return the seconds to charge for a pass that usually takes ``usual``.

        An ordinary deviation is the machine's doing. So is one pass that took longer; two in a row are not.
        """
        self._long_passes = self._long_passes + 1 if seconds > (1.0 + _USUAL_SPREAD) * usual else 0
        unusual = abs(seconds - usual) > _USUAL_SPREAD * usual
        return seconds if unusual and self._long_passes != 1 else usual

    def verified(self, drafted: int, seconds: float) -> None:
        """Note the seconds that verification took beside the pass; an interrupted one hardly counts."""
        most = _MOST_OVERHEAD * self.costs.plain * (1 + drafted)
        self.verify_overhead.observe(drafted, min(seconds, most))

    def average(self, tokens: int, cost: float) -> None:
        """Note a round that committed ``tokens`` and took as long as ``cost`` plain passes."""
        self._tokens = _FADING * self._tokens + tokens
        self._passes = _FADING * self._passes + cost

    def fade(self, cost: float) -> None:
        """Discount the gains of costly drafters by a round of ``cost`` plain passes."""
        if self.costly:
            for record in self.records.values():
                record.fade()
            self.exploration.round(cost)

    def _spare(self, room: int) -> float:
        """Seconds that queries may take now, so that some of what is drafted can be fed, too."""
        if room < 1 or self._due_plain:
            return 0.0
        fed = _FEW_TOKENS * self.costs.least_slope(self._limit)
        return self.credit.passes * self.costs.plain - fed

    def _cheap_query(self, name: str, limit: int, least: float) -> Query:
        if self.records[name].unknown:
            return Query(name, min(limit, _TRY_DEPTH), 0.0)
        floor = _SLACK * least if self.turn % _OPEN_EVERY_ROUNDS else 0.0
        return Query(name, limit, self.acceptance.in_its_words(name, floor))

    def _price(self, record: QueryRecord, depth: int) -> float:
        """Tokens that the time is worth in which level ``depth`` is drafted and a pass reads it."""
        more = self.costs.seconds(depth + 1) - self.costs.seconds(depth)
        return self.rate * (more + self.verify_overhead.slope + record.cost.slope)
