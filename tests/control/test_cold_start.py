"""The first reply of a process, whose pass costs an earlier one kept, in simulated time."""

from __future__ import annotations

import random
from collections.abc import Callable
from statistics import fmean

import pytest

from edgedec.control import CostCurve
from edgedec.decode.speculation import Speculation
from tests.control.simulate import Device, curve, decode, text
from tests.control.test_level_changes import Loaded

PASS = 0.005
SHAPE = {1: 1.0, 2: 1.0, 4: 1.31, 6: 1.9, 8: 2.48, 12: 3.28, 16: 4.09}


class Model(Loaded):
    pretrained = True


def calm(seed: int) -> Device:
    return Device(curve(SHAPE), noise=0.05, dice=random.Random(seed))


def busy(seed: int) -> Device:
    """A machine on which something takes the processor half of the time, for 30 ms each."""
    dice = random.Random(seed)
    starts = [dice.uniform(0.0, 3.0) for _ in range(50)]

    def slow(now: float) -> float:
        return 2.5 if any(at <= now < at + 0.03 for at in starts) else 1.0

    return Device(curve(SHAPE), noise=0.2, speed=slow, dice=dice)


def started(device: Device, tokens: int, load: float = 1.0) -> Speculation:
    """The speculation behind one reply: a small model beside a quick drafter; costs of another ``load``."""
    truth = text(tokens)
    small = Model(truth, device, lambda at: 0.8, depth=8, call=0.02 * PASS, level=0.15 * PASS, name="model")
    quick = Loaded(truth, device, lambda at: 0.15, depth=4, call=20e-6, name="lookup")
    kept = {tokens: load * device.costs.seconds(tokens) for tokens in (1, 2, 4, 8, 16)}
    speculation = Speculation([quick, small], CostCurve(kept, old=True), clock=device.clock)
    decode(truth, device, speculation)
    return speculation


def tokens_a_pass(tokens: int, load: float = 1.0, machine: Callable[[int], Device] = calm) -> float:
    found = (started(machine(seed), tokens, load).tally.block_efficiency for seed in range(16))
    return fmean(one or 0.0 for one in found)


@pytest.mark.parametrize("load", [0.3, 1.0, 3.0])
def test_the_first_passes_show_the_level_and_have_drafts(load: float) -> None:
    """Three plain passes before anything is drafted, three for a first call: a third of this reply."""
    assert started(calm(1), 24, load).plain_s == pytest.approx(PASS, rel=0.15)
    assert tokens_a_pass(24, load) > 2.3


def test_beside_a_busy_program_as_much_is_drafted() -> None:
    """Calls and passes take longer alike: that is no reason to draft less."""
    assert tokens_a_pass(128, machine=busy) >= 0.9 * tokens_a_pass(128)
