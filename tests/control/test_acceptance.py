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
    assert acceptance.believe("guesser", 0.95) == pytest.approx(0.8 * 0.95)
    for _ in range(12):
        acceptance.observe(drafted(7, 0.95), [8])
    assert acceptance.believe("guesser", 0.95) < 0.1


def test_first_replies_take_less_time_where_a_draft_model_is_trusted() -> None:
    class Model(Guesser):
        taught = ModelDrafter.taught

    def seconds(kind: type[Guesser], right: float) -> float:
        device, reply = Device(curve(AVX2)), text(48)
        guesser = kind(reply, device, lambda place: right, level=0.0004)
        return decode(reply, device, Speculation([guesser], device.costs, clock=device.clock))

    ratios = [seconds(Model, right / 100) / seconds(Guesser, right / 100) for right in range(55, 96, 2)]
    assert sum(ratios) / len(ratios) < 0.98
