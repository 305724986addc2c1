"""Exits of a target, in simulated time: which one drafts, how far, and whether any does."""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import pytest

from edgedec.control import CostCurve
from edgedec.core.tree import DraftTree
from edgedec.decode.passes import PassTime
from edgedec.decode.speculation import Speculation
from edgedec.draft import DrafterCapabilities
from edgedec.draft.exit import exit_name
from tests.control.parts import Reuse
from tests.control.simulate import CURVES, Device, Guesser, curve, decode, rounds, text
from tests.control.test_never_slower import MACHINES


@dataclass(frozen=True)
class Target:
    """A model: shares of a pass of its layers and its trimmed head, and how often each exit is right."""

    layers: int
    share: float
    trimmed: float
    right: Mapping[int, float]

    def step(self, exit: int, plain: float) -> float:
        """Seconds of a peek at one token."""
        return plain * (self.share * exit / self.layers + self.trimmed)

    def saved(self, exit: int, tokens: int, peeked: int, costs: CostCurve) -> float:
        """Seconds that a pass is shorter."""
        left = costs.seconds(tokens - peeked) if tokens > peeked else 0.0
        return self.share * exit / self.layers * (costs.seconds(tokens) - left)


SMALL_HEAD = Target(
    30, 0.92, 0.01, {30: 0.97, 28: 0.64, 24: 0.46, 20: 0.22, 16: 0.15, 12: 0.11, 8: 0.06, 4: 0.06}
)
"""As measured on a model of 30 layers with a small vocabulary."""
LARGE_HEAD = Target(
    18, 0.35, 0.03, {18: 0.95, 16: 0.58, 14: 0.43, 11: 0.07, 9: 0.03, 7: 0.03, 4: 0.0, 2: 0.0}
)
"""As measured on a model of 18 layers with a large vocabulary."""
GOOD_EXIT = Target(24, 0.9, 0.02, {24: 0.98, 16: 0.85, 8: 0.8, 4: 0.3})
"""Trained to draft after a third of its layers."""
UNPROFITABLE = Target(30, 0.92, 0.07, {30: 0.5, 24: 0.1, 16: 0.0, 8: 0.0})


class Exit(Guesser):
    """Drafts after ``exit`` layers: a chain, and the pass need not compute what it computed."""

    caps = DrafterCapabilities(peeks=True)

    def __init__(self, target: Target, exit: int, text: Sequence[int], device: Device) -> None:
        right = target.right[exit]
        step = target.step(exit, device.costs.plain)
        super().__init__(text, device, lambda at: right, level=step, name=exit_name(exit))
        self.target, self.exit = target, exit
        self._drafted = 0

    @property
    def peeked(self) -> int:
        return self._drafted

    def propose(self, limit: int, floor: float = 0.0) -> DraftTree:
        tree = super().propose(limit, floor)
        self._drafted = len(tree)
        return tree


def interrupted(calls: Collection[int], passes: float) -> type[Exit]:
    """An exit during some of whose calls, counted from 1, the process waits for so many passes."""

    class Interrupted(Exit):
        def propose(self, limit: int, floor: float = 0.0) -> DraftTree:
            tree = super().propose(limit, floor)
            self._device.now += passes * self._device.costs.plain * (self.calls in calls)
            return tree

    return Interrupted


def ratios(
    target: Target,
    shape: str,
    exits: Sequence[int],
    length: int = 2000,
    kind: type[Exit] = Exit,
    **machine: object,
) -> tuple[float, float]:
    """Speed over plain decoding, and the one that costs predict."""
    plain = decode(text(length), Device(curve(CURVES[shape]), **machine), None)  # type: ignore[arg-type]
    took, speculation = speculated(target, shape, exits, length, kind, **machine)
    return plain / took, speculation.tally.predicted_speed_up or 0.0


def speculated(
    target: Target,
    shape: str,
    exits: Sequence[int],
    length: int = 2000,
    kind: type[Exit] = Exit,
    believed: CostCurve | None = None,
    **machine: object,
) -> tuple[float, Speculation]:
    """Seconds to decode a text, and the speculation that did."""
    truth = text(length)
    device = Device(curve(CURVES[shape]), **machine)  # type: ignore[arg-type]
    drafters = {exit_name(exit): kind(target, exit, truth, device) for exit in exits}
    costs = believed or curve(CURVES[shape])
    speculation = Speculation(list(drafters.values()), costs, clock=device.clock)
    reply(device, speculation, drafters, truth)
    return device.now, speculation


def reply(device: Device, speculation: Speculation, exits: Mapping[str, Exit], truth: Sequence[int]) -> None:
    """Decode ``truth``. A pass behind the query of an exit does not compute again what that computed."""
    speculation.begin([], 0)
    calls = {name: drafter.calls for name, drafter in exits.items()}

    def run(at: int, tree: DraftTree) -> PassTime:
        asked = [drafter for name, drafter in exits.items() if drafter.calls > calls[name]]
        assert len(asked) <= 1
        calls.update((name, drafter.calls) for name, drafter in exits.items())
        tokens = 1 + len(tree)
        seconds = device.run(tokens)
        if asked:
            stretch = seconds / device.costs.seconds(tokens)
            peeked = min(asked[0].peeked, tokens)
            saved = asked[0].target.saved(asked[0].exit, tokens, peeked, device.costs) * stretch
            device.now -= saved
            seconds -= saved
        return PassTime(seconds)

    rounds(speculation, truth, run)


@pytest.mark.parametrize("shape", ["vnni", "avx2", "linear"])
@pytest.mark.parametrize("target", [SMALL_HEAD, UNPROFITABLE], ids=["small head", "unprofitable"])
def test_exits_that_cannot_pay_cost_next_to_nothing(target: Target, shape: str) -> None:
    assert ratios(target, shape, tuple(target.right))[0] >= 0.98


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("target", [SMALL_HEAD, UNPROFITABLE], ids=["small head", "unprofitable"])
def test_also_on_a_restless_machine(target: Target, machine: str) -> None:
    assert ratios(target, "vnni", tuple(target.right), **MACHINES[machine])[0] >= 0.97


@pytest.mark.parametrize("shape", ["vnni", "avx2"])
def test_a_large_head_makes_the_last_exit_pay(shape: str) -> None:
    assert ratios(LARGE_HEAD, shape, tuple(LARGE_HEAD.right))[0] >= 1.25


@pytest.mark.parametrize("target", [LARGE_HEAD, GOOD_EXIT], ids=["large head", "good exit"])
def test_choosing_the_exit_is_nearly_as_good_as_the_best_one_alone(target: Target) -> None:
    alone = max(ratios(target, "vnni", (exit,))[0] for exit in target.right)
    assert ratios(target, "vnni", tuple(target.right))[0] >= 0.97 * alone


@pytest.mark.parametrize("target", [LARGE_HEAD, GOOD_EXIT], ids=["large head", "good exit"])
def test_work_that_a_query_shares_with_the_pass_is_predicted_once(target: Target) -> None:
    measured, predicted = ratios(target, "vnni", tuple(target.right))
    assert predicted == pytest.approx(measured, rel=0.02)


def test_a_share_is_charged_once_it_is_known_and_tells_how_quick_the_machine_is() -> None:
    costs, reuse = CostCurve({1: 0.01, 16: 0.02}), Reuse()
    for _ in range(20):
        charged = reuse.passing(costs, 4, 3, 0.006)
    assert charged == pytest.approx(0.006)
    assert costs.plain == pytest.approx(0.01)  # so far the curve has learned nothing from them
    before = costs.seconds(4)
    for _ in range(20):  # everything takes twice as long now
        reuse.passing(costs, 4, 3, 0.012)
    assert costs.seconds(4) > 1.5 * before


def test_an_interrupted_pass_is_not_charged() -> None:
    costs, reuse = CostCurve({1: 0.01, 16: 0.02}), Reuse()
    for _ in range(9):
        reuse.passing(costs, 4, 3, 0.006)
    assert reuse.passing(costs, 4, 3, 0.5) == pytest.approx(0.006)
    assert reuse.passing(costs, 4, 3, None) == pytest.approx(0.006)


@pytest.mark.parametrize(
    ("calls", "passes"),
    [({1}, 30.0), ({5}, 30.0), ({1}, 1.0), ({1}, 5.0), ({1, 2, 3}, 5.0), ({1, 2}, 7.0), ({6, 7}, 10.0)],
)
def test_interrupted_calls_do_not_end_drafting(calls: set[int], passes: float) -> None:
    """Be they the first ones, of which nothing is known: 400 tokens, the interruptions included."""
    kind = interrupted(calls, passes)
    assert ratios(LARGE_HEAD, "vnni", [18], 400, kind)[0] > 1.2
    assert ratios(LARGE_HEAD, "vnni", [18], 400)[0] > 1.3


@pytest.mark.parametrize("passes", [5.0, 15.0])
def test_nor_do_calls_that_are_interrupted_now_and_then(passes: float) -> None:
    """One call in ten, at random."""
    for seed in range(8):
        calls = set(random.Random(seed).sample(range(1, 400), 40))
        speculation = speculated(LARGE_HEAD, "vnni", [18], 400, interrupted(calls, passes))[1]
        assert speculation.tally.block_efficiency > 4.0


@pytest.mark.parametrize(("first", "passes"), [(4, 5.0), (3, 7.0), (2, 10.0), (2, 20.0)])
def test_a_drafter_that_seemed_too_dear_comes_back(first: int, passes: float) -> None:
    """After one interruption more than can be doubted: within 105 tokens for each pass of it."""
    length = 400 + int(105 * passes)
    drafted = speculated(LARGE_HEAD, "vnni", [18], length, interrupted(range(1, first + 1), passes))[1].tally
    assert drafted.committed - drafted.rounds > 250


@pytest.mark.parametrize("load", [0.3, 1.0, 3.0])
def test_nothing_is_drafted_before_the_speed_of_the_machine_is_known(load: float) -> None:
    """Costs were measured under another load: held against them each round would seem to lose, or to gain."""
    kept = {tokens: load * time for tokens, time in curve(CURVES["vnni"]).measured().items()}
    _, speculation = speculated(LARGE_HEAD, "vnni", [18], 400, believed=CostCurve(kept, old=True))
    assert speculation.tally.block_efficiency > 5.0
    assert speculation.tally.effort("exit-18").queries <= speculation.tally.rounds - 3


@pytest.mark.parametrize("passes", [1.5, 5.0, 10.0])
def test_a_drafter_that_is_too_dear_every_time_is_tried_rarely(passes: float) -> None:
    kind = interrupted(range(1, 2000), passes)
    assert ratios(UNPROFITABLE, "vnni", [30], 2000, kind)[0] >= 0.98


def test_a_drafter_that_takes_long_every_time_is_believed_the_second_time() -> None:
    slow = interrupted(range(1, 2000), 30.0)
    assert ratios(LARGE_HEAD, "vnni", [18], 2000, slow)[0] > 2000.0 / 2070.0
