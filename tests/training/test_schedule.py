"""The learning rate rises, falls, and depends on the share of the plan that is done."""

from __future__ import annotations

import pytest

from edgedec.training.schedule import TrainingPlan, rate


def test_the_rate_rises_to_its_peak_and_falls_to_a_twentieth() -> None:
    rates = [rate(2.0, share / 1000) for share in range(1001)]
    top = rates.index(max(rates))
    assert rates[top] == pytest.approx(2.0)
    assert 0 < top < 50
    assert rates[0] > 0
    assert rates[:top] == sorted(rates[:top])
    assert rates[top:] == sorted(rates[top:], reverse=True)
    assert rates[-1] == pytest.approx(0.1)


def test_a_plan_of_steps_counts_steps_from_its_first() -> None:
    plan = TrainingPlan(100, 50, None)
    assert plan.progress(100, 1e9) == 0.0
    assert plan.progress(125, 0.0) == 0.5
    assert plan.progress(150, 0.0) == 1.0
    assert plan.progress(999, 0.0) == 1.0


def test_a_plan_of_seconds_counts_seconds() -> None:
    plan = TrainingPlan(100, None, 60.0)
    assert plan.progress(100, 0.0) == 0.0
    assert plan.progress(101, 30.0) == 0.5
    assert plan.progress(102, 61.0) == 1.0
