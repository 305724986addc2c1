"""Queries and plans: which drafters a round queries, for how much, and how much of their drafts it feeds."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial

from edgedec.control.measurements import Measurements
from edgedec.control.planner import NOTHING, FeedPlan, feed_plan, least_reach
from edgedec.control.query_record import QueryRecord
from edgedec.control.round import Query
from edgedec.core.tree import DraftTree

_TRY_DEPTH = 4
_TRY_FLOOR = 0.2
"""Levels of the first drafts of a drafter that may turn out costly, and the least probable path of one that
was pretrained: what it is unsure of is no reason to draft four levels.
"""
_FIRST_LEVELS = 1
"""Levels of the first draft of a drafter that is costly for sure."""
_UNPROFITABLE = 0.65
"""Where tokens have to be more probable than this to pay, nobody is queried: learning takes what they gain.
In a batch a drafted token may take as long as one's own.
"""
_REST_ROUNDS = 4
"""Rounds until it is checked again whether drafts can pay, or a query can be afforded."""


class Queries:
    """Decides by what was ``measured``. Drafts have at most ``limit`` tokens."""

    def __init__(self, measured: Measurements, limit: int) -> None:
        self._measured = measured
        self._limit = min(limit, measured.costs.longest - 1)
        self.unprofitable = False
        """Whether no draft can win what querying and learning take, at these costs."""
        self._quiet_until = 0
        """The round before which no cheap drafter is queried."""

    def rest(self) -> bool:
        """Return whether the round that begins now queries nobody."""
        known = self._measured
        if known.turn >= self._quiet_until:
            self.unprofitable = least_reach(known.costs, self._limit) >= _UNPROFITABLE
            if self.unprofitable:
                self._quiet_until = known.turn + _REST_ROUNDS
        return known.turn < self._quiet_until and (self.unprofitable or not known.costly)

    def cheap(self, room: int) -> list[Query]:
        """Queries to begin a round with: those of drafters that cost next to nothing, as far as due."""
        known = self._measured
        if known.turn < self._quiet_until or known.due_plain:
            return []
        plain, spare = known.costs.plain, self._spare(room)
        waits = {
            name: record.due_in(known.turn, plain) if record.seconds < spare else _REST_ROUNDS
            for name, record in known.records.items()
            if name not in known.costly
        }
        soonest = min(waits.values(), default=_REST_ROUNDS)
        if soonest > 0:
            self._quiet_until = known.turn + soonest
            return []
        limit = min(room, self._limit)
        return [self._cheap_query(name, limit) for name, wait in waits.items() if wait <= 0]

    def costly(self, plan: FeedPlan, room: int, queried: Collection[str]) -> Query | None:
        """The query of the costly drafter that promises most above ``plan``, made of the others' drafts."""
        known = self._measured
        limit, spare = min(room, self._limit), self._spare(room)
        if not known.costly or spare <= 0.0:
            return None
        best, chosen = plan.gain, None
        for name, record in known.records.items():
            if name not in known.costly or name in queried:
                continue
            if record.dear(2.0 * known.costs.plain - known.costs.seconds(2)):
                record.reconsider(known.turn, known.costs.plain)
            if record.levels(spare) < 1:
                continue
            hope = record.gains.hope(known.exploration.rounds)
            pays = record.gains.value > self.gain_without(name, plan)
            if hope > best and (pays or known.exploration.allowed):
                best, chosen = hope, name
        if chosen is None:
            return None
        record = known.records[chosen]
        if record.unknown:
            return Query(chosen, min(limit, _FIRST_LEVELS), 0.0)
        limit = min(limit, record.levels(spare))
        depth = record.depth(limit, partial(self._price, record))
        return Query(chosen, min(2 * depth, limit), min(self._price(record, depth), 1.0))

    def gain_without(self, name: str, plan: FeedPlan) -> float:
        """The gain of ``plan``, or of the query of another costly drafter than ``name`` that gains more."""
        known = self._measured
        values = (known.records[other].gains.value for other in known.costly if other != name)
        return max((plan.gain, *values))

    def plan(self, tree: DraftTree) -> FeedPlan:
        """Choose how much of a merged draft to feed."""
        known = self._measured
        if not len(tree):
            return NOTHING
        spare = max(known.credit.passes, 0.0) * known.costs.plain
        return feed_plan(
            tree, known.costs, rate=known.rate, verify_overhead=known.verify_overhead.slope, spare=spare
        )

    def _spare(self, room: int) -> float:
        """Seconds that queries may take now."""
        known = self._measured
        if room < 1 or known.due_plain:
            return 0.0
        return known.credit.passes * known.costs.plain

    def _cheap_query(self, name: str, limit: int) -> Query:
        """Without a floor once its time is known, which is short: only what it proposes can be scored."""
        known = self._measured
        if known.records[name].unknown:
            return Query(name, min(limit, _TRY_DEPTH), _TRY_FLOOR if known.pretrained(name) else 0.0)
        return Query(name, limit, 0.0)

    def _price(self, record: QueryRecord, depth: int) -> float:
        """Tokens that the time is worth in which level ``depth`` is drafted and a pass reads it."""
        known = self._measured
        more = known.costs.seconds(depth + 1) - known.costs.seconds(depth)
        return known.rate * (more + known.verify_overhead.slope + record.cost.slope)
