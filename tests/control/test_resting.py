"""Drafters that nobody queries hear everything, later, but no feedback where drafts are unprofitable."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count

import numpy as np
import pytest

from edgedec.control import BatchCosts, CostCurve
from edgedec.core.rows import HeadRows
from edgedec.core.tree import EMPTY, DraftTree
from edgedec.decode.passes import PassTime
from edgedec.decode.records import Verdict
from edgedec.decode.speculation import Speculation
from edgedec.draft import Drafter, DrafterCapabilities
from tests.control.simulate import CURVES, NO_ROWS, Device, Guesser, curve, decode, text
from tests.fixtures.rounds import begin_round

SEQUENCES = 8
KNEE = {tokens: 0.01 * cost for tokens, cost in {1: 1.0, 8: 1.05, 16: 2.1, 128: 16.8}.items()}
"""Alone there is room for drafts; in a pass of eight conversations a token more costs as much as one."""


@dataclass
class Listener(Drafter):
    """Counts what it is called for."""

    name: str = "listener"
    known: list[int] = field(default_factory=list)
    commits: int = 0
    feedback: int = 0
    queried: int = 0

    def begin(self, tokens: Sequence[int], kept: int) -> None:
        assert self.known[:kept] == list(tokens[:kept])
        self.known = list(tokens)

    def commit(self, tokens: Sequence[int]) -> None:
        self.commits += 1
        self.known += tokens

    def observe(self, tree: DraftTree, rows: HeadRows) -> None:
        assert rows.logits is None
        self.feedback += 1

    def propose(self, limit: int, floor: float = 0.0) -> DraftTree:
        self.queried += 1
        return EMPTY


def in_a_batch(*, every_round: bool = False) -> tuple[BatchCosts, Listener, Speculation]:
    """The first of eight conversations, after passes with all of them."""
    batch = BatchCosts(CostCurve(KNEE), SEQUENCES)
    listener = Listener()
    listener.caps = DrafterCapabilities(every_round=every_round)
    for _ in range(40):
        batch.passed(dict.fromkeys(range(SEQUENCES), 1), KNEE[SEQUENCES])
    speculation = Speculation([listener], batch.views[0])
    speculation.begin([1, 2], 0)
    return batch, listener, speculation


def rounds(speculation: Speculation, tokens: Sequence[int], rows: HeadRows = NO_ROWS) -> None:
    for token in tokens:
        begin_round(speculation, 15).settle(rows, Verdict((), (token,)), PassTime(KNEE[1]))


def test_where_drafts_are_unprofitable_a_round_calls_no_drafter() -> None:
    _, listener, speculation = in_a_batch()
    rounds(speculation, range(100, 1100))
    assert (listener.queried, listener.feedback, listener.commits) == (0, 0, 0)
    assert speculation.tally.rounds == speculation.tally.committed == 1000
    speculation.end()
    assert listener.commits == 1
    assert listener.known == [1, 2, *range(100, 1100)]


def test_a_drafter_that_needs_every_round_has_every_lesson_there_too() -> None:
    _, listener, speculation = in_a_batch(every_round=True)
    rounds(speculation, range(100, 1100))
    speculation.end()
    assert (listener.queried, listener.feedback) == (0, 1000)


def test_when_the_batch_goes_drafters_are_queried_and_know_everything() -> None:
    batch, listener, speculation = in_a_batch()
    rounds(speculation, range(100, 200))
    batch.passed({0: 1}, KNEE[1])
    for token in range(200, 217):
        round = begin_round(speculation, 15)
        if listener.queried:
            break
        round.settle(NO_ROWS, Verdict((), (token,)), PassTime(KNEE[1]))
    assert listener.queried == 1
    assert listener.known == [1, 2, *range(100, token)]


def test_a_new_sequence_begins_after_the_end_of_the_one_before() -> None:
    _, listener, speculation = in_a_batch()
    rounds(speculation, [3, 4])
    speculation.begin([1, 2, 3, 4, 5], 4)
    assert listener.known == [1, 2, 3, 4, 5]


def test_who_is_queried_what_lies_ahead_hears_of_no_token_twice() -> None:
    class Seer(Listener):
        caps = DrafterCapabilities(looks_ahead=True)

        def ahead(self, tokens: Sequence[int], limit: int) -> list[int]:
            self.begin(tokens, 0)
            return [token + 1 for token in self.known[-limit:]]

    seer = Seer()
    speculation = Speculation([seer], in_a_batch()[0].views[0])
    speculation.begin([1, 2], 0)
    rounds(speculation, range(100, 120))
    assert speculation.ahead([1, 2, *range(100, 120)], 2) == [119, 120]
    rounds(speculation, range(120, 140))
    speculation.end()
    assert seer.known == [1, 2, *range(100, 140)]


@pytest.mark.parametrize("logits", [None, np.zeros((1, 4), np.float32)])
def test_alone_what_waits_is_bounded_and_no_lesson_is_lost(logits: np.ndarray | None) -> None:
    """Asked in vain it is queried ever more rarely, but it may have something to say one day."""
    listener = Listener()
    ticks = count()
    speculation = Speculation([listener], CostCurve(KNEE), clock=lambda: 1e-3 * next(ticks))
    speculation.begin([1, 2], 0)
    one = np.zeros(1, np.float32)
    rows = HeadRows(np.zeros((1, 4), np.float32), np.zeros((1, 4), np.int32), one, one, logits)
    waiting = []
    for token in range(1000):
        rounds(speculation, [token], rows)
        waiting.append(token + 1 - listener.commits)
    assert 0 < listener.queried < 100
    assert 8 < max(waiting) < 40
    speculation.end()
    assert listener.feedback == listener.commits == 1000


def test_who_is_always_right_is_queried_in_every_round() -> None:
    """The better drafts are, the more is a second worth; that makes them no less worth asking for."""
    truth, device = text(3000), Device(curve(CURVES["avx2"]))
    guesser = Guesser(truth, device, lambda at: 1.0)
    speculation = Speculation([guesser], curve(CURVES["avx2"]), clock=device.clock)
    decode(truth, device, speculation)
    assert speculation.tally.rounds > 180
    assert guesser.calls > 0.95 * speculation.tally.rounds
