"""The first reply of a process, whose pass costs an earlier one kept, in simulated time."""

from __future__ import annotations

import random
from collections.abc import Callable
from statistics import fmean

import pytest

from edgedec.control import CostCurve
from edgedec.core.tree import DraftTree
from edgedec.decode.speculation import Speculation
from tests.control.simulate import Device, curve, decode, replies, text
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


@pytest.mark.parametrize("claims", [0.3, 0.9, 1.0])
@pytest.mark.parametrize("tokens", [40, 128])
def test_a_drafter_that_was_good_and_is_useless_costs_little(claims: float, tokens: int) -> None:
    """Three passes, the rest of a round, and the share of all tokens. It was up to thirteen, saved before."""
    device, truth = Device(curve(SHAPE)), text(5 * tokens)
    small = Model(
        truth, device, lambda at: 0.9 * (at < 4 * tokens), claims, depth=8, level=0.15 * PASS, name="model"
    )
    costs = CostCurve({count: device.costs.seconds(count) for count in (1, 2, 4, 8, 16)}, old=True)
    *_, last = replies(device, Speculation([small], costs, clock=device.clock), truth, tokens)
    assert last <= (tokens + 4.2) * PASS


class Stepping(Model):
    """A small model that reads the prompt and makes a step before it knows how sure it is, as they do."""

    def propose(self, limit: int, floor: float = 0.0) -> DraftTree:
        self._device.now += self._reading * (self.calls == 0)
        self.calls += 1
        return self._guess(limit, min(floor, 0.99 * (self._claims or 0.0)))


@pytest.mark.parametrize("tokens", [16, 31])
def test_a_model_that_is_unsure_from_its_first_query_on_hardly_slows_a_short_reply(tokens: int) -> None:
    """As where it is to translate. Four levels of its first drafts, however unsure, took half a pass each."""
    found = []
    for seed in range(8):
        device, truth = calm(seed), text(tokens)
        small = Stepping(
            truth, device, lambda at: 0.1, 0.15, depth=8, level=0.125 * PASS, reading=0.7 * PASS, name="model"
        )
        kept = {tokens: device.costs.seconds(tokens) for tokens in (1, 2, 4, 8, 16)}
        speculation = Speculation([small], CostCurve(kept, old=True), clock=device.clock)
        found.append(decode(truth, calm(seed), None) / decode(truth, device, speculation))
    assert fmean(found) >= 0.95
