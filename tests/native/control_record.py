"""Records of Python's control: all that it was told, and what it made of it, as numbers.

The native control gets the same script (kernels/engine/probes/control.cc) and has to write the same numbers.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from edgedec.control import Controller, CostCurve, DraftAnswer, Query, RoundTimes, Uncontrolled
from edgedec.control.linear_fit import Line
from edgedec.control.measurements import Measurements
from edgedec.control.round import Ask, Round
from edgedec.control.tally import Tally
from edgedec.core.tree import EMPTY, DraftTree
from edgedec.native import probe

Numbers = NDArray[np.float64]
BEGIN, DROP, ROUND, DRAFT, ANSWER, SETTLE, TALLY, FORECAST = range(1, 9)


class Recorder:
    """A ``Controller``, or ``Uncontrolled`` where ``costs`` is None, that writes down its conversation."""

    def __init__(
        self,
        costs: CostCurve | None,
        names: Sequence[str],
        limit: int,
        *,
        peeking: Collection[str] = (),
        pretrained: Callable[[str], bool] = lambda name: False,
    ) -> None:
        """``costs`` were not observed yet."""
        self.control = (
            Controller(costs, names, limit, peeking=peeking, pretrained=pretrained)
            if costs
            else Uncontrolled(names)
        )
        self.names = list(names)
        self.tally = Tally()
        self.script: list[float] = [costs is not None, limit, len(names)]
        self.record: list[float] = []
        for name in names:
            self.script += [name in peeking, pretrained(name)]
        if costs:
            self.script += [costs.level_is_old, len(costs._points)]
            for tokens in costs._points:
                self.script += [tokens, costs._first[tokens - 1]]

    @property
    def measured(self) -> Measurements:
        assert isinstance(self.control, Controller)
        return self.control.measured

    def begin(self, stop_ids: Collection[int]) -> None:
        self.script += [BEGIN, len(stop_ids), *stop_ids]
        self.control.begin(stop_ids)

    def drop(self, name: str) -> None:
        self.script += [DROP, self.names.index(name)]
        self.control.drop(name)

    def round(self, room: int) -> RecordedRound:
        self.script += [ROUND, room]
        round = self.control.round(room)
        self.record += [round.resting, round.unprofitable]
        return RecordedRound(self, round)

    def write_tree(self, numbers: list[float], tree: DraftTree) -> None:
        numbers.append(len(tree))
        sources = [self.names.index(name) for name in tree.sources]
        for node in zip(tree.tokens, tree.parents, tree.probs, sources, strict=True):
            numbers += node

    def estimates(self) -> None:
        """Write down all that is known."""
        known, record = self.measured, self.record
        costs = known.costs
        record += [costs.seconds(tokens) for tokens in range(1, costs.longest + 1)]
        record += costs.measured().values()
        record += [costs.least_slope(3), costs.level_is_old, costs.drift, known.due_plain, known.rate]
        record += [known.credit.passes, known.exploration._left, known.exploration.rounds]
        record += _line(known.verify_overhead)
        for name in self.names:
            record.append(name in known.records)
            if name in known.records:
                self._drafter(name)

    def _drafter(self, name: str) -> None:
        known, queries = self.measured, self.measured.records[name]
        self.record += [name in known.fresh, name in known.costly, queries.unknown, queries.seconds]
        self.record += [queries.gains.value, queries.gains.hope(known.exploration.rounds)]
        self.record += _line(queries.cost)
        self.record += [known.acceptance.calibrate(name, step / 10.0) for step in range(11)]

    def finish(self) -> tuple[Numbers, Numbers]:
        """Return the script, and what the native control has to write."""
        tally, record = self.tally, self.record
        record += [tally.rounds, tally.committed, tally.drafted, tally.accepted, tally.verify_s]
        for name in self.names:
            count = tally.by_source.get(name)
            record += [count.drafted, count.accepted] if count else [0, 0]
        record.append(len(tally.by_depth))
        for count in tally.by_depth:
            record += [count.drafted, count.accepted]
        record += [tally.predicted_tokens_per_s or -1.0, tally.predicted_speed_up or -1.0]
        return np.array(self.script, np.float64), np.array(record, np.float64)


class RecordedRound:
    """A ``Round`` whose conversation is written down."""

    def __init__(self, recorder: Recorder, round: Round) -> None:
        self._recorder, self._round = recorder, round
        self._fed = EMPTY
        self.resting, self.unprofitable = round.resting, round.unprofitable

    @property
    def pass_s(self) -> float:
        return self._round.pass_s

    def draft(self, ask: Ask, certain: DraftTree = EMPTY) -> DraftTree:
        script, record = self._recorder.script, self._recorder.record
        assert not len(certain)
        script.append(DRAFT)

        def recorded(query: Query) -> DraftAnswer | None:
            record.extend([self._recorder.names.index(query.name), query.limit, query.floor])
            answer = ask(query)
            script.extend([ANSWER, answer is not None])
            if answer:
                script.extend([answer.seconds, answer.peeked])
                self._recorder.write_tree(script, answer.tree)
            return answer

        self._fed = self._round.draft(recorded)
        self._recorder.write_tree(record, self._fed)
        record.append(self._round.pass_s)
        return self._fed

    def settle(self, committed: Sequence[int], times: RoundTimes) -> None:
        recorder = self._recorder
        accepted = _accepted(self._fed, committed)
        passing = times.passing or 0.0
        recorder.script += [TALLY, len(accepted), *accepted, len(committed), passing]
        recorder.tally.add(self._fed, accepted, len(committed), passing)
        if isinstance(recorder.control, Controller):
            plain_s = recorder.measured.costs.plain
            recorder.script += [FORECAST, len(committed), self.pass_s, plain_s]
            recorder.tally.forecast.add(len(committed), self.pass_s, plain_s)
        recorder.script += [SETTLE, times.passing is not None, passing, times.drafting, times.verifying]
        recorder.script += [len(committed), *committed]
        self._round.settle(committed, times)
        if isinstance(recorder.control, Controller):
            recorder.estimates()


def called(script: Numbers, written: Numbers) -> int:
    """Replay ``script``; return how many numbers were written, or what is wrong."""
    call = probe.function("control", ctypes.c_int64, *(ctypes.c_void_p, ctypes.c_size_t) * 2)
    count: int = call(script.ctypes.data, len(script), written.ctypes.data, len(written))
    return count


def same(recorder: Recorder) -> None:
    """Compare the native control with the recorded one, to the bit."""
    script, expected = recorder.finish()
    found = np.zeros_like(expected)
    count = called(script, found)
    assert count == len(expected), f"{count} numbers instead of {len(expected)}"
    differing = np.flatnonzero(expected.view(np.int64) != found.view(np.int64))
    first = differing[0] if len(differing) else 0
    assert not len(differing), f"number {first} of {len(expected)}: {expected[first]!r}, not {found[first]!r}"


def _line(line: Line) -> list[float]:
    return [line.calls, line.mean, line.fixed, line.slope]


def _accepted(fed: DraftTree, committed: Sequence[int]) -> list[int]:
    nodes: list[int] = []
    for token in committed[:-1]:
        node = fed.child(nodes[-1] if nodes else -1, token)
        assert node is not None
        nodes.append(node)
    return nodes
