"""Whatever drafters claim, texts do and passes cost: never slower than plain decoding. In simulated time."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from statistics import harmonic_mean

import pytest

from edgedec.control import CostCurve
from edgedec.core.tree import EMPTY, DraftTree
from edgedec.decode.speculation import Speculation
from edgedec.draft import Drafter
from tests.control.simulate import (
    BENT,
    CURVES,
    FLAT,
    LINEAR,
    LONGEST,
    Device,
    Fixed,
    Guesser,
    Make,
    ReadingGuesser,
    curve,
    decode,
    replies,
    speedup,
    text,
)
from tests.fixtures.nightly import diagonal

SLOWER = 0.98
NEAR = 0.92
"""Of the best plan that feeds as many tokens in every round. The rest is what it takes to find it."""
PASS = 0.005

Right = Callable[[int], float]


def guessing(right: Right, claims: float | None = None, *, call: float = 0.0, level: float = 0.0) -> Make:
    return lambda truth, device: [Guesser(truth, device, right, claims, call=call, level=level)]


def on(name: str, **changes: object) -> Callable[[], Device]:
    return lambda: Device(curve(CURVES[name]), **changes)  # type: ignore[arg-type]


TEXTS: dict[str, tuple[Right, float | None]] = {
    "always wrong, sure of itself": (lambda at: 0.0, 1.0),
    "hardly ever right": (lambda at: 0.1, 0.9),
    "right at first": (lambda at: float(at < 1000), 1.0),
    "right in the end": (lambda at: float(at >= 1000), 1.0),
    "right by turns of 5": (lambda at: float(at // 5 % 2), 1.0),
    "right by turns of 40": (lambda at: float(at // 40 % 2), 1.0),
    "a coin": (lambda at: 0.5, 0.95),
    "a modest one": (lambda at: 0.8, 0.3),
}
MACHINES: dict[str, dict[str, object]] = {
    "noisy": {"noise": 0.15, "interrupted": 0.01},
    "slowing down": {"speed": lambda now: 2.0 if now > 3.0 else 1.0},
}


@pytest.mark.parametrize(("shape", "name"), diagonal(list(CURVES), list(TEXTS)))
def test_never_slower(shape: str, name: str) -> None:
    right, claims = TEXTS[name]
    assert speedup(guessing(right, claims), on(shape)) >= SLOWER


@pytest.mark.parametrize(("name", "machine"), diagonal(list(TEXTS), list(MACHINES)))
def test_never_slower_on_a_restless_machine(name: str, machine: str) -> None:
    right, claims = TEXTS[name]
    assert speedup(guessing(right, claims), on("avx2", **MACHINES[machine])) >= SLOWER


@pytest.mark.parametrize("level", [0.1, 0.5])
@pytest.mark.parametrize("right", [0.0, 0.3])
@pytest.mark.parametrize("shape", ["vnni", "avx2", "steps"])
def test_a_small_model_that_does_not_pay_is_asked_rarely(shape: str, right: float, level: float) -> None:
    make = guessing(lambda at: right, call=0.02 * PASS, level=level * PASS)
    assert speedup(make, on(shape)) >= SLOWER


@pytest.mark.parametrize("shape", CURVES)
@pytest.mark.parametrize("believed", [FLAT, LINEAR])
@pytest.mark.parametrize("right", [0.0, 0.5])
def test_hardly_slower_when_costs_were_measured_all_wrong(
    shape: str, believed: dict[int, float], right: float
) -> None:
    """By up to 16 times: what it takes to see that is lost."""
    make = guessing(lambda at: right, 1.0 if not right else None)
    assert speedup(make, on(shape), believed=curve(believed)) >= 0.95


@pytest.mark.parametrize("shape", CURVES)
@pytest.mark.parametrize("load", [0.1, 10.0])
@pytest.mark.parametrize("right", [0.0, 0.5])
def test_never_slower_with_costs_that_were_measured_under_another_load(
    shape: str, load: float, right: float
) -> None:
    """A drafter that takes a tenth of a pass, beside costs of a machine ten times as quick or as slow."""
    kept = {tokens: load * time for tokens, time in curve(CURVES[shape]).measured().items()}
    make = guessing(lambda at: right, 0.9, call=0.02 * PASS, level=0.1 * PASS)
    assert speedup(make, on(shape), believed=CostCurve(kept, old=True)) >= SLOWER


def test_an_old_level_is_learned_before_anything_is_drafted() -> None:
    device = on("vnni")()
    truth = text(40)
    believed = CostCurve({tokens: 8.0 * device.costs.seconds(tokens) for tokens in (1, 8, 16)}, old=True)
    speculation = Speculation(guessing(lambda at: 1.0)(truth, device), believed, clock=device.clock)
    decode(truth, device, speculation)
    assert believed.plain == pytest.approx(PASS)
    assert next(row.drafted for row in speculation.tally.by_depth) >= 2


@pytest.mark.parametrize("right", [0.0, 0.1])
def test_asking_in_vain_costs_next_to_nothing(right: float) -> None:
    """40 microseconds a call, where a pass takes 5 ms and every token of it as much again."""
    calls = guessing(lambda at: right, 0.9, call=40e-6)
    assert speedup(calls, on("linear")) >= 0.995


def best_fixed(make: Make, device: Callable[[], Device]) -> float:
    truth = text()
    plain, best = decode(truth, device(), None), 0.0
    for count in (0, 1, 2, 3, 5, 8, 15):
        own = device()
        (drafter,) = make(truth, own)
        best = max(best, plain / decode(truth, own, Fixed(drafter, count)))
    return best


@pytest.mark.parametrize("right", [1.0, 0.8, 0.5])
@pytest.mark.parametrize("shape", ["flat", "vnni", "avx2"])
def test_near_the_best_plan(shape: str, right: float) -> None:
    make, device = guessing(lambda at: right), on(shape)
    assert speedup(make, device) >= NEAR * best_fixed(make, device)


@pytest.mark.parametrize(
    ("shape", "right", "level"), [("avx2", 0.9, 0.1), ("vnni", 0.8, 0.1), ("flat", 0.9, 0.25)]
)
def test_a_small_model_that_pays_is_used(shape: str, right: float, level: float) -> None:
    make = guessing(lambda at: right, call=0.02 * PASS, level=level * PASS)
    assert speedup(make, on(shape)) >= 0.93 * best_fixed(make, on(shape))


class Slowed(Guesser):
    """A guesser whose calls a busy machine stretches as it does passes."""

    def propose(self, limit: int, floor: float = 0.0) -> DraftTree:
        began = self._device.now
        tree = super().propose(limit, floor)
        self._device.now = began + (self._device.now - began) * self._device.speed(began)
        return tree


def calls_of_a_small_model(slow: float) -> int:
    """Calls in 36 replies, where all takes ``slow`` times as long in ten of twenty plain passes."""
    truth, calls = text(6 * 64), 0
    for seed in range(6):
        speed = lambda now: slow if now / PASS % 20 < 10 else 1.0  # noqa: E731
        device = Device(curve(BENT), noise=0.04, speed=speed, dice=random.Random(seed))
        small = Slowed(truth, device, lambda at: 0.5, depth=15, call=0.02 * PASS, level=0.13 * PASS)
        replies(device, Speculation([small], curve(BENT), clock=device.clock), truth, 64)
        calls += small.calls
    return calls


def test_a_small_model_is_not_charged_for_another_program_that_computes_now_and_then() -> None:
    """Its calls take longer as passes do. Charged for passes alone, it is called half as often."""
    assert calls_of_a_small_model(2.5) >= 0.8 * calls_of_a_small_model(1.0)


def test_a_small_model_that_begins_to_pay_is_used_again() -> None:
    make = guessing(lambda at: float(at >= 1000), call=0.02 * PASS, level=0.1 * PASS)
    assert speedup(make, on("vnni"), length=4000) >= 2.0


def test_reading_the_prompt_first_is_not_held_against_a_small_model() -> None:
    """It takes as long as 100 tokens, once."""

    def make(truth: Sequence[int], device: Device) -> list[Drafter]:
        return [Guesser(truth, device, lambda at: 0.9, level=0.1 * PASS, reading=100 * PASS)]

    assert speedup(make, on("vnni")) >= 2.0


def following(right: float) -> Make:
    """A small model that, asked, reads first what was said since it was last asked; at first, the prompt."""
    return lambda truth, device: [
        Guesser(
            truth,
            device,
            lambda at: right,
            right or 0.6,
            call=0.03 * PASS,
            level=0.15 * PASS,
            reading=2.5 * PASS,
            catching_up=0.02 * PASS,
        )
    ]


@pytest.mark.parametrize("right", [0.0, 0.1, 0.3])
def test_catching_up_with_the_text_in_vain_is_rare(right: float) -> None:
    assert speedup(following(right), on("quants", noise=0.08)) >= SLOWER


@pytest.mark.parametrize("right", [0.5, 0.7, 0.9])
def test_catching_up_with_the_text_is_not_held_against_a_small_model(right: float) -> None:
    """Asked in every round it has little to read, however long it had to read when it was first tried."""
    found = [
        speedup(following(right), on("quants", noise=0.08, dice=random.Random(seed))) for seed in range(4)
    ]
    assert harmonic_mean(found) >= 0.92 * best_fixed(following(right), on("quants", noise=0.08))


_REPLY = 40


def short_replies(rights: Sequence[float]) -> list[float]:
    """Speeds over plain decoding of short replies: a small model right this often, beside a quick drafter.

    The small model has to read each prompt first, which takes it as long as two passes.
    """
    device, truth = Device(curve(BENT), noise=0.05), text(_REPLY * len(rights))
    small = ReadingGuesser(
        truth,
        device,
        lambda at: rights[at // _REPLY],
        depth=8,
        call=0.02 * PASS,
        level=0.13 * PASS,
        reading=2.0 * PASS,
        catching_up=0.01 * PASS,
        name="model",
    )
    quick = Guesser(truth, device, lambda at: 0.2, depth=4, call=20e-6, name="lookup")
    costs = CostCurve({tokens: device.costs.seconds(tokens) for tokens in range(1, LONGEST + 1)})
    speculation = Speculation([quick, small], costs, clock=device.clock)
    return [_REPLY * PASS / took for took in replies(device, speculation, truth, _REPLY)]


def test_a_small_model_without_use_in_many_replies_is_used_again_where_it_pays() -> None:
    """As where the first twenty prompts ask for translations, which it does not know."""
    speeds = short_replies([0.15] * 20 + [0.75] * 60)
    assert harmonic_mean(speeds[40:]) >= 1.45
    assert harmonic_mean(speeds[:20]) >= 0.95  # it reads some of the prompts in vain


def test_a_small_model_without_use_is_tried_in_few_replies() -> None:
    assert harmonic_mean(short_replies([0.1] * 80)) >= 0.97


def test_a_small_model_beside_a_quick_drafter() -> None:
    """Where the quick one is right half of the time, and nothing is to be gained, they gain what it does."""

    def quick(truth: Sequence[int], device: Device) -> Guesser:
        return Guesser(truth, device, lambda at: float(at // 50 % 2), 1.0, call=10e-6)

    def both(truth: Sequence[int], device: Device) -> list[Drafter]:
        useless = Guesser(truth, device, lambda at: 0.0, 0.9, level=0.3 * PASS, name="model")
        return [quick(truth, device), useless]

    def useful(truth: Sequence[int], device: Device) -> list[Drafter]:
        return [quick(truth, device), Guesser(truth, device, lambda at: 0.8, level=0.1 * PASS, name="model")]

    alone = speedup(lambda truth, device: [quick(truth, device)], on("vnni"))
    assert speedup(both, on("vnni")) >= 0.97 * alone
    assert speedup(useful, on("vnni")) >= 1.2 * alone


def test_a_drafter_that_is_right_fills_every_pass_where_passes_cost_the_same() -> None:
    assert speedup(guessing(lambda at: 1.0), on("flat")) > 0.97 * LONGEST


def test_where_every_token_costs_a_pass_nothing_is_fed() -> None:
    assert speedup(guessing(lambda at: 1.0), on("linear")) == pytest.approx(1.0, abs=1e-9)


class NewLiar(Guesser):
    """A liar whom nobody knows: it is silent but for its ``turn`` of a text, and trusted from the start."""

    pretrained = True

    def __init__(self, text: Sequence[int], device: Device, turn: int, length: int) -> None:
        super().__init__(text, device, lambda at: 0.0, 1.0, name=f"liar {turn}")
        self._turn = range(turn * length, (turn + 1) * length)

    def propose(self, limit: int, floor: float = 0.0) -> DraftTree:
        return super().propose(limit, floor) if self._at in self._turn else EMPTY


def test_the_credit_alone_keeps_liars_off_whom_nobody_knows_yet() -> None:
    def make(truth: Sequence[int], device: Device) -> Sequence[Drafter]:
        return [NewLiar(truth, device, turn, 50) for turn in range(len(truth) // 50)]

    assert speedup(make, on("avx2")) >= SLOWER


def test_without_control_these_tests_would_fail() -> None:
    """The negative control: what the tests above measure is what keeps decoding from being slower."""
    truth = text(500)
    plain, fed = on("avx2")(), on("avx2")()
    guesser = Guesser(truth, fed, lambda at: 0.0, 1.0)
    assert decode(truth, plain, None) / decode(truth, fed, Speculation([guesser], clock=fed.clock)) < 0.5


def test_decisions_are_the_same_for_the_same_measurements() -> None:
    fed: list[list[int]] = []
    for _ in range(2):
        device = Device(curve(CURVES["avx2"]), noise=0.2)
        truth = text(500)
        drafter = Guesser(truth, device, lambda at: 0.7, level=0.1 * PASS)
        costs = CostCurve({tokens: device.costs.seconds(tokens) for tokens in range(1, LONGEST + 1)})
        speculation = Speculation([drafter], costs, clock=device.clock)
        decode(truth, device, speculation)
        fed.append([count.drafted for count in speculation.tally.by_depth])
        assert sum(fed[-1]) > 100
    assert fed[0] == fed[1]
