"""One round under control: it queries, plans and settles. See ``Round``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from edgedec.control.merge import merged
from edgedec.control.planner import FeedPlan
from edgedec.control.round import Ask, DraftAnswer, RoundTimes
from edgedec.core.tree import EMPTY, ROOT, DraftTree

if TYPE_CHECKING:
    from edgedec.control.controller import Controller

_READING_PASSES = 2.0
"""Cap, in passes, on charging a drafter for reading a new prompt.

Reading is a price of the reply, as the target's own reading is, and says nothing about drafts.
"""


@dataclass(frozen=True, slots=True)
class _Trial:
    """A query of a costly drafter: the gain without it, and whether that seemed as good."""

    name: str
    gain_without: float
    exploring: bool


class RestingRound:
    """A round of ``control`` in which no drafter is queried."""

    __slots__ = ("_control", "unprofitable")
    resting = True

    def __init__(self, control: Controller) -> None:
        self._control = control
        self.unprofitable = control.unprofitable

    def draft(self, ask: Ask) -> DraftTree:
        """No draft."""
        return EMPTY

    @property
    def pass_s(self) -> float:
        return self._control.costs.plain

    def settle(self, committed: Sequence[int], times: RoundTimes) -> None:
        """Note a plain round."""
        self._control.rested(times.passing)


class ControlledRound:
    """A round of ``control`` that may feed ``room`` drafted tokens."""

    resting = False
    unprofitable = False

    def __init__(self, control: Controller, room: int) -> None:
        self._control = control
        self._room = room
        self._fed = EMPTY
        self._proposed: list[DraftTree] = []
        self._queried: list[str] = []
        self._trial: _Trial | None = None
        self._uncharged_s = 0.0
        """Time that drafters took to read, or were interrupted, which is not charged to their drafts."""
        self._peeked: DraftAnswer | None = None
        """The answer that computed parts of the pass."""

    def draft(self, ask: Ask) -> DraftTree:
        """Query cheap drafters, then perhaps a costly one, and choose how much of their tokens to feed."""
        control = self._control
        for query in control.cheap_queries(self._room):
            self._heard(query.name, ask(query))
        tree, plan = self._planned()
        if (costly := control.costly_query(plan, self._room, self._queried)) is not None:
            without = control.gain_without(costly.name, plan)
            record = control.records[costly.name]
            self._trial = _Trial(costly.name, without, record.value <= without)
            if self._trial.exploring:
                record.tried()
            self._heard(costly.name, ask(costly))
            tree, plan = self._planned()
        self._fed = tree.first(plan.nodes)
        return self._fed

    @property
    def pass_s(self) -> float:
        control, tokens = self._control, 1 + len(self._fed)
        if self._peeked:
            return control.reuse.expected(control.costs, tokens, self._reused(self._peeked))
        return control.costs.seconds(tokens)

    def settle(self, committed: Sequence[int], times: RoundTimes) -> None:
        """Score drafters by ``committed``, observe costs, and book the round on the credit."""
        control, fed = self._control, self._fed
        if not self._queried and not len(fed):
            control.rested(times.passing)
            return
        for tree in self._proposed:
            control.acceptance.observe(tree, committed)
        drafted = len(fed)
        passing = self._passing(times)
        control.since_plain = control.since_plain + 1 if drafted else 0
        took = passing + times.drafting - self._uncharged_s + control.verify_overhead.slope * drafted
        self._account(committed, took / control.costs.plain)
        for name in self._queried:
            if name in control.records:
                control.records[name].queried(control.turn, name in fed.sources)

    def _planned(self) -> tuple[DraftTree, FeedPlan]:
        control = self._control
        tree = merged(self._proposed, self._room, control.acceptance.calibrate, control.stop_ids)
        return tree, control.plan(tree)

    def _heard(self, name: str, answer: DraftAnswer | None) -> None:
        """Note an answer and its time; None: the drafter failed and is gone."""
        if answer is None:
            if self._trial and self._trial.name == name:
                self._trial = None
            return
        if len(answer.tree):
            self._proposed.append(answer.tree)
        control, record = self._control, self._control.records[name]
        depth = max(answer.tree.depths(), default=0)
        fresh = name in control.fresh
        if answer.peeked:
            self._peeked = answer
        reads = fresh or (name in control.costly and record.paused(control.turn))
        if reads and name not in control.peeking:
            reading = max(answer.seconds - record.cost.expected(depth), 0.0)
            self._uncharged_s += reading
            self._read(name, reading / control.costs.plain, fresh)
        else:
            self._uncharged_s += record.took(depth, answer.seconds, control.costs.plain)
        control.classify(name)
        self._queried.append(name)

    def _read(self, name: str, passes: float, fresh: bool) -> None:
        """Charge a drafter for reading; where it is known to pay, that is a price of the reply."""
        control, trial = self._control, self._trial
        if trial and trial.name == name:
            control.records[name].won(-passes * control.rate * control.costs.plain)
            if trial.exploring and control.records[name].charged:
                control.exploration.lost(min(passes, _READING_PASSES) if fresh else passes)

    def _passing(self, times: RoundTimes) -> float:
        """Seconds to charge for the pass: the usual ones, or the measured ones if the curve is wrong.

        An ordinary deviation and an interruption are the machine's doing: charging them would use up the
        credit of good drafts.
        """
        control, drafted = self._control, len(self._fed)
        if self._peeked:
            control.verified(drafted, times.verifying)
            reused = self._reused(self._peeked)
            usual = control.reuse.expected(control.costs, 1 + drafted, reused)
            passing = control.reuse.passing(control.costs, 1 + drafted, reused, times.passing)
            return control.charged(passing, usual)
        passing = control.costs.seconds(1 + drafted)
        if times.passing is None:
            return passing
        believed = control.costs.observe(1 + drafted, times.passing)
        control.verified(drafted, times.verifying)
        if believed and drafted:
            return control.charged(times.passing, passing)
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
        control, tokens = self._control, len(committed)
        control.credit.book(tokens, cost)
        trial = self._trial
        if trial and trial.name in control.records:
            gain = tokens - 1 - control.rate * control.costs.plain * (cost - 1.0)
            record, more = control.records[trial.name], gain - trial.gain_without
            record.gained(gain)
            record.won(more)
            self._judge(trial.name, committed)
            if not trial.exploring:
                control.exploration.gained(more)
            elif record.charged:
                control.exploration.lost(-more)
        control.fade(cost)
        control.average(tokens, cost)

    def _judge(self, name: str, committed: Sequence[int]) -> None:
        """Score the levels that a costly drafter had tokens on."""
        level, fed = ROOT, self._fed
        for depth, token in enumerate(committed):
            drafted = [node for node in fed.children(level) if fed.sources[node] == name]
            following = fed.child(level, token)
            if drafted:
                self._control.records[name].judged(depth, following is not None)
            if following is None:
                return
            level = following
