"""One round under control: it queries, plans and settles. See ``Round``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from edgedec.control.measurements import Measurements
from edgedec.control.merge import merged
from edgedec.control.planner import NOTHING, FeedPlan
from edgedec.control.queries import Queries
from edgedec.control.round import Ask, DraftAnswer, RoundTimes
from edgedec.core.quick_dataclass import dataclass
from edgedec.core.tree import EMPTY, ROOT, DraftTree


@dataclass(frozen=True, slots=True)
class _Trial:
    """A query of a costly drafter: the gain without it, and whether that seemed as good."""

    name: str
    gain_without: float
    exploring: bool


class _Call(NamedTuple):
    """A query that drafted ``depth`` levels in so many seconds."""

    name: str
    depth: int
    seconds: float


class RestingRound:
    """A round in which no drafter is queried."""

    __slots__ = ("_measured", "unprofitable")
    resting = True

    def __init__(self, measured: Measurements, *, unprofitable: bool) -> None:
        self._measured = measured
        self.unprofitable = unprofitable

    def draft(self, ask: Ask, certain: DraftTree = EMPTY) -> DraftTree:
        """No draft."""
        return EMPTY

    @property
    def pass_s(self) -> float:
        return self._measured.costs.plain

    def settle(self, committed: Sequence[int], times: RoundTimes) -> None:
        """Note a plain round."""
        self._measured.rested(times.passing)


class ControlledRound:
    """A round that may feed ``room`` drafted tokens. It asks ``queries`` and tells ``measured``."""

    resting = False
    unprofitable = False

    def __init__(self, measured: Measurements, queries: Queries, room: int) -> None:
        self._measured = measured
        self._queries = queries
        self._room = room
        self._fed = EMPTY
        self._plan = NOTHING
        self._proposed: list[DraftTree] = []
        self._queried: list[str] = []
        self._trial: _Trial | None = None
        self._calls: list[_Call] = []
        """Queries with little to read first."""
        self._uncharged_s = 0.0
        """Time that drafters took to read, which is not charged to their drafts."""
        self._peeked: DraftAnswer | None = None
        """The answer that computed parts of the pass."""

    def draft(self, ask: Ask, certain: DraftTree = EMPTY) -> DraftTree:
        """Query cheap drafters, then perhaps a costly one, and choose how much of their tokens to feed."""
        measured = self._measured
        if len(certain):
            self._proposed.append(certain)
        for query in self._queries.cheap(self._room):
            self._heard(query.name, ask(query))
        tree, plan = self._planned()
        if (costly := self._queries.costly(plan, self._room, self._queried)) is not None:
            without = self._queries.gain_without(costly.name, plan)
            record = measured.records[costly.name]
            self._trial = _Trial(costly.name, without, record.gains.value <= without)
            self._heard(costly.name, ask(costly))
            tree, plan = self._planned()
        self._fed, self._plan = tree.first(plan.nodes), plan
        return self._fed

    @property
    def pass_s(self) -> float:
        measured, tokens = self._measured, 1 + len(self._fed)
        if self._peeked:
            return measured.reuse.expected(measured.costs, tokens, self._reused(self._peeked))
        return measured.costs.seconds(tokens)

    def settle(self, committed: Sequence[int], times: RoundTimes) -> None:
        """Score drafters by ``committed``, observe costs, and book the round on the credit."""
        measured, fed = self._measured, self._fed
        if not self._queried and not len(fed):
            measured.rested(times.passing)
            return
        for tree in self._proposed:
            measured.acceptance.observe(tree, committed)
        measured.passed(len(fed))
        self._watch(times)
        measured.level.settle(measured.turn, partial(self._settle, committed, times))
        for name in self._queried:
            if name in measured.records:
                measured.records[name].queried(measured.turn, name in fed.sources)

    def _watch(self, times: RoundTimes) -> None:
        """Compare the times of calls and of the pass with the usual ones, where these are known."""
        measured, tokens = self._measured, 1 + len(self._fed)
        if measured.costs.level_is_old or (measured.costly and not measured.peeking):
            return  # costly calls show in the same round whether it is the machine
        for call in self._calls:
            record = measured.records.get(call.name)
            if record is None or call.name not in measured.peeking:
                continue
            if record.unknown:
                measured.level.saw_first_call()
            else:
                measured.level.saw(call.seconds, record.cost.on_line(call.depth))
        known = not self._peeked or measured.reuse.known(tokens, self._reused(self._peeked))
        if times.passing is not None and known:
            measured.level.saw(times.passing, self.pass_s)

    def _settle(self, committed: Sequence[int], times: RoundTimes, scale: float) -> None:
        """Learn from the round's times, ``scale`` times as long as measured, and book it."""
        measured, drafted = self._measured, len(self._fed)
        times, uncharged = times.scaled(scale), scale * self._uncharged_s
        if measured.costs.level_is_old and times.passing is not None:
            measured.level.take(1 + drafted, times.passing)
            times = replace(times, passing=None)
        for name, depth, seconds in self._calls:
            if name in measured.records:
                uncharged += measured.records[name].took(depth, scale * seconds, measured.costs.plain)
                measured.classify(name)
        passing = self._passing(times)
        took = passing + times.luck + times.drafting - uncharged + measured.verify_overhead.slope * drafted
        self._account(committed, took / measured.costs.plain)

    def _planned(self) -> tuple[DraftTree, FeedPlan]:
        measured = self._measured
        tree = merged(self._proposed, self._room, measured.acceptance.calibrate, measured.stop_ids)
        return tree, self._queries.plan(tree)

    def _heard(self, name: str, answer: DraftAnswer | None) -> None:
        """Note an answer and its time; None: the drafter failed and is gone."""
        if answer is None:
            if self._trial and self._trial.name == name:
                self._trial = None
            return
        if len(answer.tree):
            self._proposed.append(answer.tree)
        measured, record = self._measured, self._measured.records[name]
        depth = max(answer.tree.depths(), default=0)
        fresh = name in measured.fresh
        if answer.peeked:
            self._peeked = answer
        reads = fresh or (name in measured.costly and record.paused(measured.turn))
        if reads and name not in measured.peeking:
            reading = max(answer.seconds - record.cost.expected(depth), 0.0)
            self._uncharged_s += reading
            if self._trial and self._trial.exploring and self._trial.name == name:
                measured.exploration.lost(reading / measured.costs.plain)
        else:
            self._calls.append(_Call(name, depth, answer.seconds))
        measured.fresh.discard(name)
        self._queried.append(name)

    def _passing(self, times: RoundTimes) -> float:
        """Seconds to charge for the pass: the usual ones, or the measured ones if the curve is wrong.

        An ordinary deviation and an interruption are the machine's doing: charging them would use up the
        credit of good drafts.
        """
        measured, drafted = self._measured, len(self._fed)
        if self._peeked:
            measured.verified(drafted, times.verifying)
            reused = self._reused(self._peeked)
            usual = measured.reuse.expected(measured.costs, 1 + drafted, reused)
            passing = measured.reuse.passing(measured.costs, 1 + drafted, reused, times.passing)
            return measured.charged(passing, usual)
        passing = measured.costs.seconds(1 + drafted)
        if times.passing is None:
            return passing
        believed = measured.costs.observe(1 + drafted, times.passing)
        measured.verified(drafted, times.verifying)
        if believed and drafted:
            return measured.charged(times.passing, passing)
        return passing

    def _reused(self, answer: DraftAnswer) -> int:
        """Tokens of the pass that the query computed parts of."""
        node, count = ROOT, 1
        for token in answer.tree.tokens[: answer.peeked - 1]:
            following = self._fed.child(node, token)
            if following is None:
                break
            node, count = following, count + 1
        return count

    def _account(self, committed: Sequence[int], cost: float) -> None:
        """Book the round, which took as long as ``cost`` plain passes."""
        measured, tokens = self._measured, len(committed)
        measured.credit.book(tokens, cost)
        trial = self._trial
        if trial and trial.name in measured.records:
            # What came of one query says little about the next. Probabilities do, where they mean something.
            accepted = self._plan.accepted if measured.pretrained(trial.name) else tokens - 1
            gain = accepted - measured.rate * measured.costs.plain * (cost - 1.0)
            record, more = measured.records[trial.name], gain - trial.gain_without
            record.gains.gained(gain)
            self._judge(trial.name, committed)
            if not trial.exploring:
                measured.exploration.gained(more)
            else:
                measured.exploration.lost(-more)
        measured.count(tokens, cost)

    def _judge(self, name: str, committed: Sequence[int]) -> None:
        """Score the levels that a costly drafter had tokens on."""
        level, fed = ROOT, self._fed
        for depth, token in enumerate(committed):
            drafted = [node for node in fed.children(level) if fed.sources[node] == name]
            following = fed.child(level, token)
            if drafted:
                self._measured.records[name].judged(depth, following is not None)
            if following is None:
                return
            level = following
