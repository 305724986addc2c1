"""What the picture of a plan is made of."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from edgedec.bench.plots import memory_plan
from edgedec.bench.plots.memory_plan import plans
from edgedec.control import CostCurve
from edgedec.costs.speeds import PredictedSpeeds
from edgedec.memory.footprint import DrafterMemory
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


def test_no_label_of_the_picture_touches_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With all that can be given up, "long passes over prompts" lay on "long drafts"."""
    pytest.importorskip("matplotlib")
    drawn = []
    monkeypatch.setattr(memory_plan, "save_figure", lambda figure, path: drawn.append(figure))
    draft = DrafterMemory("drafter", "the draft model", KNOWN.target.weights, lambda choice, count: 0)
    found = plans(replace(KNOWN, drafters=(draft,)), replace(WANTED, model_drafts=True), elastic=True)
    speeds = [PredictedSpeeds(10.0, 20.0) for _ in found]
    memory_plan.draw_plans(found, speeds, None, tmp_path / "plan.png", title="model")
    drawn[0].draw_without_rendering()
    labels = drawn[0].axes[2].get_yticklabels()
    assert len(labels) >= 6
    boxes = [label.get_window_extent() for label in labels]
    assert not any(boxes[i].overlaps(boxes[j]) for i in range(len(boxes)) for j in range(i))
