"""Plans for budgets of every size, and the speeds that they allow."""

from __future__ import annotations

import pytest

from edgedec.bench.studies.budget_plans import plans
from edgedec.control import CostCurve
from edgedec.costs.speeds import PredictedSpeeds
from tests.bench.test_budgets import KNOWN, WANTED


def test_speeds_are_those_of_measured_passes() -> None:
    curve = CostCurve({1: 0.010, 2: 0.011, 4: 0.016, 8: 0.040, 16: 0.100})
    assert PredictedSpeeds.of(curve, 0) == PredictedSpeeds(pytest.approx(100.0), pytest.approx(100.0))
    best = PredictedSpeeds.of(curve, 15)
    assert best.plain == pytest.approx(100.0)
    assert best.most == pytest.approx(250.0)  # four tokens a pass; eight take too long
    assert PredictedSpeeds.of(curve, 1).most == pytest.approx(2 / 0.011)


def test_plans_go_from_the_least_to_everything() -> None:
    found = plans(KNOWN, WANTED, elastic=True)
    assert found[-1].choice == WANTED
    assert found[-1].given_up == ()
    assert (found[0].choice.drafted, found[0].choice.kv) == (0, "int8")
    contexts = [plan.choice.context for plan in found]
    assert contexts[0] < 100
    assert max(contexts) == 1500
    assert all(plan.peak <= plan.budget for plan in found)
