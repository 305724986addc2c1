"""Probabilities of drafters, as they are believed."""

from __future__ import annotations

import pytest

from edgedec.control.acceptance import Acceptance
from edgedec.core.tree import ROOT, DraftTree


def drafted(token: int, prob: float) -> DraftTree:
    return DraftTree((token,), (ROOT,), (prob,), ("guesser",))


def test_a_trusted_drafter_that_errs_loses_its_trust() -> None:
    acceptance = Acceptance()
    assert acceptance.calibrate("guesser", 0.95) == pytest.approx(0.8 * 0.95)
    for _ in range(12):
        acceptance.observe(drafted(7, 0.95), [8])
    assert acceptance.calibrate("guesser", 0.95) < 0.1


def test_tokens_are_counted_by_their_probability() -> None:
    acceptance = Acceptance()
    for token in (8, 8, 7):
        acceptance.observe(drafted(token, 0.25), [8])
    acceptance.observe(drafted(8, 1.0), [8])
    chain = DraftTree((7, 8), (ROOT, 0), (0.5, 0.9), ("guesser",) * 2)
    acceptance.observe(chain, [8, 8])  # what follows a wrong token is not judged
    counts = acceptance.counts()["guesser"]
    assert {step: pair for step, pair in enumerate(counts) if pair[0]} == {2: [3, 2], 5: [1, 0], 10: [1, 1]}
