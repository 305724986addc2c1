"""Probabilities of drafters, as they are believed."""

from __future__ import annotations

import pytest

from edgedec.control.acceptance import Acceptance
from edgedec.core.tree import ROOT, DraftTree
from edgedec.decode.speculation import Speculation
from edgedec.draft import ModelDrafter
from tests.control.simulate import AVX2, Device, Guesser, curve, decode, text


def drafted(token: int, prob: float) -> DraftTree:
    return DraftTree((token,), (ROOT,), (prob,), ("guesser",))


def test_a_trusted_drafter_that_errs_loses_its_trust() -> None:
    acceptance = Acceptance(lambda name: True)
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


def test_first_replies_take_less_time_where_a_draft_model_is_trusted() -> None:
    class Model(Guesser):
        pretrained = ModelDrafter.pretrained

    def seconds(kind: type[Guesser], right: float) -> float:
        device, reply = Device(curve(AVX2)), text(48)
        guesser = kind(reply, device, lambda place: right, level=0.0004)
        return decode(reply, device, Speculation([guesser], device.costs, clock=device.clock))

    ratios = [seconds(Model, right / 100) / seconds(Guesser, right / 100) for right in range(55, 96, 2)]
    assert sum(ratios) / len(ratios) < 0.98
