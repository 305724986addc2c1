"""A machine that becomes slower or quicker while drafts are made, in simulated time: what pays goes on."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import cache
from statistics import fmean

import pytest

from edgedec.control import BatchCosts, CostCurve
from edgedec.core.tree import DraftTree
from edgedec.decode.speculation import Speculation
from edgedec.draft import Drafter
from tests.control.parts import LevelCheck
from tests.control.simulate import CURVES, Device, Guesser, Make, curve, decode, text
from tests.control.test_exits import LARGE_HEAD, UNPROFITABLE, Exit, reply
from tests.fixtures.nightly import diagonal

PASS = 0.005
_PASSES = (1, 2, 3, 4, 5, 6, 8, 12, 20, 30)
"""Passes after which the speed changes."""
_NOISE = 0.05


class Loaded(Guesser):
    """A guesser whose calls slow down with the machine."""

    def propose(self, limit: int, floor: float = 0.0) -> DraftTree:
        began = self._device.now
        tree = super().propose(limit, floor)
        took, device = self._device.now - began, self._device
        device.now = began + took * device.speed(began) * device.dice.lognormvariate(0.0, device.noise)
        return tree


class LoadedExit(Loaded, Exit):
    """An exit whose calls do."""


def exits(truth: Sequence[int], device: Device) -> list[Drafter]:
    return [LoadedExit(LARGE_HEAD, 18, truth, device)]


def vain(truth: Sequence[int], device: Device) -> list[Drafter]:
    names = ("lookup", "recycling")
    return [Loaded(truth, device, lambda at: 0.03, 0.5, depth=8, call=20e-6, name=name) for name in names]


def model(truth: Sequence[int], device: Device) -> list[Drafter]:
    call, level, reading = 0.03 * PASS, 0.15 * PASS, 2.5 * PASS
    return [
        Loaded(truth, device, lambda at: 0.85, depth=8, call=call, level=level, reading=reading, name="model")
    ]


KINDS: dict[str, Callable[[Sequence[int], Device], list[Drafter]]] = {
    "exit": exits,
    "exit beside cheap ones in vain": lambda truth, device: vain(truth, device) + exits(truth, device),
    "model": model,
    "model beside cheap ones in vain": lambda truth, device: vain(truth, device) + model(truth, device),
    "head": lambda truth, device: [
        Loaded(truth, device, lambda at: 0.6, depth=6, call=0.02 * PASS, level=0.08 * PASS)
    ],
    "lookup": lambda truth, device: [Loaded(truth, device, lambda at: 0.8, call=20e-6)],
}


def machine(factor: float, passes: int, seed: int, shape: str = "vnni") -> Device:
    """Take ``factor`` times as long for everything after about so many plain ``passes``."""
    change = 1.02 * passes * PASS
    speed = lambda now: factor if now > change else 1.0  # noqa: E731
    return Device(curve(CURVES[shape]), noise=_NOISE, speed=speed, dice=random.Random(seed))


def speculation(make: Make, truth: Sequence[int], device: Device, *, old: bool) -> Speculation:
    """The speculation that decoded ``truth``. ``old``: with costs of another day."""
    drafters = make(truth, device)
    costs = CostCurve({tokens: device.costs.seconds(tokens) for tokens in (1, 2, 4, 8, 16)}, old=old)
    speculation = Speculation(drafters, costs, clock=device.clock)
    reply(device, speculation, {one.name: one for one in drafters if isinstance(one, Exit)}, truth)
    return speculation


@cache
def efficiencies(make: Make, factor: float, *, old: bool) -> list[float]:
    """Block efficiency of replies of 200 tokens, by the pass after which the speed changes."""
    truth, found = text(200), []
    for passes in _PASSES:
        tally = speculation(make, truth, machine(factor, passes, passes), old=old).tally
        found.append(tally.block_efficiency or 0.0)
    return found


@pytest.mark.parametrize("old", [True, False], ids=["kept costs", "new costs"])
@pytest.mark.parametrize(("kind", "factor"), diagonal(list(KINDS), [3.0, 2.0, 1.4, 0.5, 0.33]))
def test_drafts_that_pay_go_on_when_the_speed_of_the_machine_changes(
    kind: str, old: bool, factor: float
) -> None:
    usual = fmean(efficiencies(KINDS[kind], 1.0, old=old))
    assert min(efficiencies(KINDS[kind], factor, old=old)) > 0.6 * usual


USELESS: dict[str, Make] = {
    "exits": lambda truth, device: [LoadedExit(UNPROFITABLE, 30, truth, device)],
    "model": lambda truth, device: [
        Loaded(truth, device, lambda at: 0.3, 0.6, depth=8, call=0.03 * PASS, level=0.3 * PASS)
    ],
    "head": lambda truth, device: [
        Loaded(truth, device, lambda at: 0.1, 0.9, depth=6, call=0.02 * PASS, level=0.08 * PASS)
    ],
    "liar": lambda truth, device: [Loaded(truth, device, lambda at: 0.0, 1.0, call=20e-6)],
}


@pytest.mark.parametrize("shape", ["vnni", "avx2"])
@pytest.mark.parametrize(("kind", "factor"), diagonal(list(USELESS), [3.0, 2.0, 0.5, 0.33]))
def test_drafts_that_do_not_pay_lose_no_more_when_it_does(kind: str, factor: float, shape: str) -> None:
    """At most 4 % of the first 500 tokens."""
    truth = text(500)
    for passes in (1, 3, 6, 12, 30, 100):
        plain = decode(truth, machine(factor, passes, 1, shape), None)
        device = machine(factor, passes, 1, shape)
        speculation(USELESS[kind], truth, device, old=True)
        assert plain / device.now >= 0.96


class Checked(LevelCheck):
    """A level check over costs of its own."""

    def __init__(self) -> None:
        self.costs = CostCurve({1: 1.0, 16: 1.4})
        super().__init__(self.costs)

    def round(self, turn: int, seconds: float) -> None:
        self.saw(seconds, 1.0)
        self.settle(turn)


def test_a_round_that_deviates_waits_for_the_level() -> None:
    one = Checked()
    one.round(1, 1.2)
    assert (one.scales, one.costs.level_is_old) == ([1.0], False)
    one.round(2, 2.0)
    assert (one.scales, one.costs.level_is_old) == ([1.0], True)
    for turn in (3, 4, 5):
        one.plain(turn, 2.1)
    assert one.scales == [1.0, 1.0]
    assert one.ratios == [pytest.approx(2.1)]
    assert one.costs.seconds(16) == pytest.approx(2.94)


def test_one_plain_pass_shows_that_the_level_has_not_changed_and_checks_become_rare() -> None:
    one = Checked()
    checks = 0
    for turn in range(1, 1001):
        if one.costs.level_is_old:
            one.plain(turn, 1.02)
            checks += 1
        else:
            one.round(turn, 2.0 if turn % 7 == 0 else 1.0)
    assert 5 <= checks <= 10
    assert one.ratios == []
    assert set(one.scales) == {1.0}


def test_a_first_call_before_the_change_counts_as_if_it_had_been_after_it() -> None:
    one = Checked()
    one.saw(1.0, 1.0)
    one.saw_first_call()
    one.settle(1)
    for turn in (2, 3, 4):
        one.plain(turn, 0.5)
    assert one.scales == [pytest.approx(0.5)]


def test_passes_that_sequences_share_are_not_held_back() -> None:
    view = BatchCosts(CostCurve({1: 1.0, 16: 1.4}), 2).views[0]
    check = LevelCheck(view)
    check.saw(5.0, 1.0)
    check.settle(1)
    assert check.scales == [1.0]
