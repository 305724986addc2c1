"""The memory plan, and the speed that each memory budget allows by pass costs."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from edgedec.bench.report.subject import Subject
from edgedec.bench.report.views import Chart, Figure, TableView, View
from edgedec.core.progress import Progress, ignore
from edgedec.core.units import size


def measure(subject: Subject, progress: Progress) -> dict[str, Any]:
    """Plan without a limit, list what smaller budgets give up, and predict their speeds."""
    from edgedec.bench.studies.budget_plans import plans, predicted
    from edgedec.costs.speeds import costs_now
    from edgedec.memory.plan import least, milestones
    from edgedec.session.model_stats import PlanStats

    run = subject.usual()
    budget = run.plan()
    found = plans(budget.facts, budget.wanted, elastic=True)
    kinds = tuple(dict.fromkeys([budget.choice.kv, *(plan.choice.kv for plan in found)]))
    costs = costs_now(run.target, kinds, subject.home, notice=ignore)
    points = [
        [plan.budget, round(speed.plain, 3), round(speed.most, 3), plan.choice.context]
        for plan, speed in zip(found, predicted(found, costs.curves), strict=True)
    ]
    stones = [(least(budget.facts, budget.wanted), "nothing fits")]
    stones += milestones(budget.facts, budget.wanted)
    return {
        **PlanStats.of(budget).as_json(),
        "milestones": [{"bytes": nbytes, "below": lost} for nbytes, lost in stones],
        "curve": _corners(points),
    }


def figures(result: Mapping[str, Any]) -> list[Figure]:
    parts = [Figure.resident(name.replace("_", " "), count) for name, count in result["parts"].items()]
    least = Figure.resident("least memory", result["milestones"][0]["bytes"])
    peak = Figure.resident("planned peak", result["planned_bytes"], short="memory of a chat, planned")
    return [peak, *parts, least]


def view(result: Mapping[str, Any]) -> View:
    parts = tuple((name.replace("_", " "), size(count)) for name, count in result["parts"].items())
    stones = tuple((size(one["bytes"]), str(one["below"])) for one in result["milestones"])
    lines = {
        "one token a pass": [(point[0] / 1e6, point[1]) for point in result["curve"]],
        "all drafts right": [(point[0] / 1e6, point[2]) for point in result["curve"]],
    }
    chart = Chart("Speed that a budget allows", "memory budget, MB", "tokens/s, predicted", lines)
    return View(
        lines=(
            f"Without a limit, a chat with a context of {result['choice']['context']} tokens takes "
            f"{size(result['planned_bytes'])}. The least is {size(result['milestones'][0]['bytes'])}.",
        ),
        tables=(TableView(("part", "bytes"), parts), TableView(("with less than", "it gives up"), stones)),
        charts=(chart,),
        notes=(
            "Speeds are computed from pass costs at a short context. With drafts they lie between one token "
            "a pass and all drafts right.",
        ),
    )


def _corners(points: list[list[float]]) -> list[list[float]]:
    """Return the first point, the last one, and both beside every change of the values."""
    changes = [pair for pair in pairwise(points) if pair[0][1:] != pair[1][1:]]
    return [points[0], *(point for pair in changes for point in pair), points[-1]]
