"""Probabilities of drafters, as they are believed."""

from __future__ import annotations

import pytest

from edgedec.core.tree import EMPTY, ROOT, DraftTree
from edgedec.decode.passes import PassTime
from edgedec.decode.speculation import Speculation
from tests.control.parts import Acceptance
from tests.control.simulate import NO_ROWS, Saying, curve, following
from tests.fixtures.rounds import begin_round


def drafted(token: int, prob: float) -> DraftTree:
    return DraftTree((token,), (ROOT,), (prob,), ("guesser",))


def test_a_trusted_drafter_that_errs_loses_its_trust() -> None:
    acceptance = Acceptance(["guesser"])
    assert acceptance.calibrate("guesser", 0.95) == pytest.approx(0.8 * 0.95)
    for _ in range(12):
        acceptance.observe(drafted(7, 0.95), [8])
    assert acceptance.calibrate("guesser", 0.95) < 0.1


def test_tokens_are_counted_by_their_probability() -> None:
    chain = DraftTree((7, 8), (ROOT, 0), (0.5, 0.9), ("guesser",) * 2)
    drafts = [*(drafted(token, 0.25) for token in (8, 8, 7)), drafted(8, 1.0), chain]
    waiting = iter(drafts)
    guesser = Saying("guesser", lambda limit: next(waiting, EMPTY))
    speculation = Speculation([guesser], curve({1: 1.0, 16: 1.0}))
    speculation.begin([], 0)
    for _ in drafts:  # behind a wrong token nothing is judged
        round = begin_round(speculation, 8)
        round.settle(NO_ROWS, following(round.tree, [8, 8, 8]), PassTime(0.005))
    counts = speculation.judged()["guesser"]
    assert {step: pair for step, pair in enumerate(counts) if pair[0]} == {2: [3, 2], 5: [1, 0], 10: [1, 1]}
