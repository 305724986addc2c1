"""Control that minimises joules: the same rules, on costs in another unit."""

from __future__ import annotations

import pytest

from edgedec.control import CostCurve, EnergyCosts
from edgedec.core.tree import DraftTree, chain
from edgedec.decode.passes import PassTime
from edgedec.decode.speculation import Speculation
from tests.control.parts import feed_plan
from tests.control.simulate import Device, Guesser, curve, decode, rounds, text

FLAT = {1: 1.0, 16: 1.2}
DEAR = {1: 1.0, 16: 8.0}
"""Watts relative to a plain pass: a pass over more tokens takes hardly longer, and much more power."""


def joules_and_length(watts: dict[int, float] | None, right: float = 0.7) -> tuple[float, float]:
    """Decode a text; return joules a token by ``DEAR`` watts, and the mean length of drafts that were fed."""
    truth, device = text(400), Device(curve(FLAT))
    known: CostCurve | EnergyCosts = curve(FLAT)
    if watts:
        known = EnergyCosts(known, watts)
    power = EnergyCosts(curve(FLAT), DEAR)
    speculation = Speculation([Guesser(truth, device, lambda at: right)], known, clock=device.clock)
    speculation.begin([], 0)
    used, fed = 0.0, list[int]()

    def run(at: int, tree: DraftTree) -> PassTime:
        nonlocal used
        seconds = device.run(1 + len(tree))
        used += power.price(seconds, 1 + len(tree))
        fed.append(len(tree))
        return PassTime(seconds)

    rounds(speculation, truth, run)
    return used / len(truth), sum(fed) / max(sum(map(bool, fed)), 1)


def test_drafts_are_shorter_where_rejected_tokens_cost_energy() -> None:
    by_time, long = joules_and_length(None)
    by_energy, short = joules_and_length(DEAR)
    assert short < 0.7 * long
    assert by_energy < 0.9 * by_time


def test_where_all_passes_draw_the_same_power_energy_is_time() -> None:
    assert joules_and_length({1: 7.0}) == joules_and_length(None)


def test_no_drafts_are_fed_where_each_drafted_token_costs_a_pass() -> None:
    assert joules_and_length({1: 1.0, 2: 2.0, 16: 16.0}, right=0.5)[1] <= 1.0


def test_a_plan_feeds_less_by_energy_than_by_time() -> None:
    tree = chain(list(range(12)), [0.8] * 12, "guesser")
    by_time, by_energy = feed_plan(tree, curve(FLAT)), feed_plan(tree, EnergyCosts(curve(FLAT), DEAR))
    assert 0 < by_energy.nodes < by_time.nodes


def test_watts_between_measured_tokens_are_straight_lines_and_level_beyond() -> None:
    costs = EnergyCosts(curve({1: 1.0, 16: 1.0}, second=1.0), {1: 2.0, 5: 4.0})
    assert [costs.seconds(tokens) for tokens in (1, 3, 5, 16)] == [2.0, 3.0, 4.0, 4.0]
    assert costs.plain == 2.0
    assert costs.least_slope(15) == pytest.approx(2.0 / 15)


def test_what_is_observed_in_joules_moves_the_curve_of_seconds() -> None:
    seconds = CostCurve({1: 0.01, 16: 0.02})
    costs = EnergyCosts(seconds, {1: 3.0, 16: 9.0})
    for _ in range(100):
        assert costs.observe(1, 3.0 * 0.02)
    assert seconds.seconds(1) == pytest.approx(0.02, rel=0.01)
    assert costs.measured() == seconds.measured()
    assert not costs.observe(17, 1.0)


@pytest.mark.parametrize("watts", [{}, {2: 1.0}, {1: 0.0}, {1: 1.0, 4: -1.0}])
def test_watts_that_are_none(watts: dict[int, float]) -> None:
    with pytest.raises(ValueError, match="positive watts"):
        EnergyCosts(curve(FLAT), watts)


def test_the_forecast_stays_one_of_time() -> None:
    truth, device = text(300), Device(curve(FLAT))
    costs = EnergyCosts(curve(FLAT), {1: 5.0, 16: 5.0})
    speculation = Speculation([Guesser(truth, device, lambda at: 1.0)], costs, clock=device.clock)
    decode(truth, device, speculation)
    assert speculation.tally.predicted_s == pytest.approx(device.now, rel=0.1)
    assert speculation.tally.predicted_speed_up == pytest.approx(300 * 0.005 / device.now, rel=0.1)
