from __future__ import annotations

import pytest

from edgedec.control import Acceptance, CostCurve, planned
from edgedec.core.tree import EMPTY, DraftTree, chain

FLAT = CostCurve({1: 0.010, 16: 0.010})
STEEP = CostCurve({1: 0.010, 16: 0.160})
MEASURED = CostCurve({1: 0.038, 2: 0.045, 4: 0.062, 8: 0.105, 16: 0.188})


def test_between_measured_points_costs_are_straight_lines() -> None:
    assert MEASURED.seconds(3) == pytest.approx(0.0535)
    assert MEASURED.seconds(12) == pytest.approx(0.1465)
    assert MEASURED.longest == 16


def test_costs_never_fall_with_tokens() -> None:
    curve = CostCurve({1: 0.02, 2: 0.01, 16: 0.05})
    times = [curve.seconds(tokens) for tokens in range(1, 17)]
    assert times == sorted(times)


@pytest.mark.parametrize("tokens", [0, 17])
def test_outside_the_curve(tokens: int) -> None:
    with pytest.raises(ValueError, match="outside"):
        MEASURED.seconds(tokens)


@pytest.mark.parametrize("points", [{}, {2: 1.0}, {1: 0.0}, {0: 1.0, 1: 1.0}])
def test_curves_that_are_none(points: dict[int, float]) -> None:
    with pytest.raises(ValueError, match="cost curve"):
        CostCurve(points)


def test_a_machine_that_slows_down_is_followed() -> None:
    curve = CostCurve({1: 0.01, 16: 0.02})
    for _ in range(100):
        curve.observe(1, 0.02)
    assert curve.seconds(1) == pytest.approx(0.02, rel=0.01)


def test_one_interrupted_pass_says_nothing() -> None:
    curve = CostCurve({1: 0.01, 16: 0.02})
    curve.observe(1, 5.0)
    assert curve.seconds(1) == 0.01


def test_a_free_pass_takes_all_of_a_draft_and_a_dear_one_none() -> None:
    draft = chain([1, 2, 3, 4], [0.6] * 4, "x")
    assert planned(draft, FLAT) == 4
    assert planned(draft, STEEP) == 0
    assert planned(EMPTY, FLAT) == 0


def test_the_plan_has_the_best_rate_of_all_prefixes() -> None:
    tree = DraftTree((1, 2, 3, 4, 5, 6), (-1, 0, -1, 1, 2, 3), (0.9, 0.8, 0.3, 0.7, 0.2, 0.4), ("x",) * 6)
    reach = [0.9, 0.72, 0.3, 0.504, 0.06, 0.2016]
    rates = [(1 + sum(reach[:n])) / MEASURED.seconds(1 + n) for n in range(7)]
    assert planned(tree, MEASURED) == rates.index(max(rates))


def test_the_plan_ends_where_the_curve_does() -> None:
    assert planned(chain(list(range(30)), [1.0] * 30, "x"), FLAT) == 15
    assert planned(chain(list(range(30)), [1.0] * 30, "x"), FLAT, waiting=16) == 0


def test_belief_moves_from_what_is_said_to_what_is_seen() -> None:
    acceptance = Acceptance()
    assert acceptance.believe("x", 0.9) == pytest.approx(0.9)
    for _ in range(50):
        acceptance.observe(chain([1], [0.9], "x"), [2])
    assert acceptance.believe("x", 0.9) < 0.15
    assert acceptance.believe("y", 0.9) == pytest.approx(0.9)
    for _ in range(500):
        acceptance.observe(chain([1], [0.9], "x"), [1])
    assert acceptance.believe("x", 0.9) > 0.9


def test_only_children_of_what_was_committed_count() -> None:
    acceptance = Acceptance()
    tree = DraftTree((1, 2, 3), (-1, 0, 1), (0.55, 0.65, 0.75), ("x",) * 3)
    for _ in range(50):
        acceptance.observe(tree, [1, 9, 3])
    assert acceptance.believe("x", 0.55) > 0.9  # committed
    assert acceptance.believe("x", 0.65) < 0.15  # its parent was, it was not
    assert acceptance.believe("x", 0.75) == pytest.approx(0.75)  # nobody knows
