"""Picture of memory plans: speed, context and concessions over the budget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgedec.bench.plots.figure import BLUE, GREEN, GREY, YELLOW, save_figure
from edgedec.control import CostCurve
from edgedec.memory.footprint import MemoryChoice, MemoryFacts
from edgedec.memory.plan import MemoryPlan, least, peak, planned

_POINTS = 240
_MARGIN = 0.06
_KINDS = {
    "prompts": "long passes\nover prompts",
    "tree": "long drafts",
    "tables": "drafters' tables",
    "drafter": "the draft model",
    "drafts": "all drafts",
    "cache": "KV cache in fp16",
    "context": "context",
}
"""Concessions in the order of ``memory.plan``, with the words of the picture."""
_PLAIN, _DRAFTS, _CONTEXT, _LOST = BLUE, YELLOW, GREEN, GREY


@dataclass(frozen=True, slots=True)
class PredictedSpeeds:
    """Tokens per second at a short context, computed from measured pass costs.

    ``plain``: one token a pass. ``most``: every drafted token is accepted. Real speed lies between.
    """

    plain: float
    most: float

    @classmethod
    def of(cls, curve: CostCurve, drafted: int) -> PredictedSpeeds:
        longest = min(1 + drafted, curve.longest)
        rates = [tokens / curve.seconds(tokens) for tokens in range(1, longest + 1)]
        return cls(rates[0], max(rates))


def plans(facts: MemoryFacts, wanted: MemoryChoice, *, elastic: bool) -> list[MemoryPlan]:
    """Return plans for budgets from the smallest to a little more than any plan uses."""
    low, high = least(facts, wanted), peak(facts, wanted)
    high += int(_MARGIN * (high - low)) + 1
    budgets = [low + (high - low) * step // _POINTS for step in range(_POINTS + 1)]
    return [planned(facts, wanted, budget, elastic=elastic) for budget in budgets]


def draw_plans(
    found: Sequence[MemoryPlan], costs: Mapping[str, CostCurve], budget: int | None, path: Path, *, title: str
) -> None:
    """Draw panels over the budget: predicted tokens per second, tokens of context, concessions.

    ``costs`` has pass costs by type of KV cache; without them there is no panel of speed. ``budget`` is
    marked.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.4, 7.2 if costs else 5.4), layout="constrained")
    heights = [2.2, 1.6, 1.4] if costs else [1.6, 1.4]
    panels = list(figure.subplots(len(heights), 1, sharex=True, height_ratios=heights))
    if costs:
        _draw_speed(panels[0], found, costs)
    budgets = [plan.budget / 1e6 for plan in found]
    panels[-2].step(budgets, [plan.choice.context for plan in found], color=_CONTEXT, where="post")
    panels[-2].set_ylim(bottom=0)
    panels[-2].set_ylabel("context, tokens")
    _draw_given_up(panels[-1], found)
    panels[-1].set_xlabel("memory budget, MB: weights, KV cache, drafters, Python and all")
    for axes in panels:
        axes.grid(alpha=0.3)
        if budget:
            axes.axvline(budget / 1e6, color="black", linewidth=1)
    figure.suptitle(title, fontsize=11)
    save_figure(figure, path)


def _draw_speed(axes: Any, found: Sequence[MemoryPlan], costs: Mapping[str, CostCurve]) -> None:
    budgets = [plan.budget / 1e6 for plan in found]
    speeds = [
        PredictedSpeeds.of(costs[plan.choice.kv], plan.choice.drafted) if plan.choice.kv in costs else None
        for plan in found
    ]
    plain = [speed.plain if speed else float("nan") for speed in speeds]
    most = [speed.most if speed else float("nan") for speed in speeds]
    axes.fill_between(budgets, plain, most, step="post", color=_DRAFTS, alpha=0.35,
                      label="with drafts: up to this, were all of them right")  # fmt: skip
    axes.step(budgets, plain, color=_PLAIN, where="post", label="one token a pass")
    axes.set_ylim(bottom=0)
    axes.set_ylabel("tokens/s at a short context,\nfrom measured costs of passes")
    axes.legend(frameon=False, loc="lower right")


def _draw_given_up(axes: Any, found: Sequence[MemoryPlan]) -> None:
    width = (found[1].budget - found[0].budget) / 1e6
    shown = [kind for kind in _KINDS if any(_lost(plan, kind) for plan in found)]
    for row, kind in enumerate(shown):
        spans = [(plan.budget / 1e6, width) for plan in found if _lost(plan, kind)]
        axes.broken_barh(spans, (row - 0.35, 0.7), color=_LOST, linewidth=0)
    axes.set_yticks(range(len(shown)), [_KINDS[kind] for kind in shown])
    axes.set_ylim(len(shown) - 0.4, -0.6)
    axes.set_ylabel("given up")


def _lost(plan: MemoryPlan, kind: str) -> bool:
    return any(line.startswith(f"{kind}:") for line in plan.given_up)
