"""Picture of memory plans: speed, context and concessions over the budget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from edgedec.bench.plots.figure import BLUE, GREEN, GREY, YELLOW, save_figure
from edgedec.control import CostCurve
from edgedec.core.cache_config import KvType
from edgedec.costs.speeds import PredictedSpeeds
from edgedec.memory.footprint import MemoryChoice, MemoryFacts
from edgedec.memory.plan import MemoryPlan, least, peak, planned

_POINTS = 240
_MARGIN = 0.06
_KINDS = {
    "prompts": "long passes over prompts",
    "tree": "long drafts",
    "tables": "drafters' tables",
    "drafter": "the draft model",
    "drafts": "all drafts",
    "cache": "KV cache in fp16",
    "context": "context",
}
"""Concessions in the order of ``memory.plan``, with the words of the picture."""
_PLAIN, _DRAFTS, _CONTEXT, _LOST = BLUE, YELLOW, GREEN, GREY


def plans(facts: MemoryFacts, wanted: MemoryChoice, *, elastic: bool) -> list[MemoryPlan]:
    """Return plans for budgets from the smallest to a little more than any plan uses."""
    low, high = least(facts, wanted), peak(facts, wanted)
    high += int(_MARGIN * (high - low)) + 1
    budgets = [low + (high - low) * step // _POINTS for step in range(_POINTS + 1)]
    return [planned(facts, wanted, budget, elastic=elastic) for budget in budgets]


def predicted(found: Sequence[MemoryPlan], costs: Mapping[KvType, CostCurve]) -> list[PredictedSpeeds]:
    """Return the speeds of plans at a short context; ``costs``, of one moment, by the type of KV cache.

    With less memory neither speed rises while the type of KV cache stays: at a short context only drafts
    change it. A cache in int8 may be quicker or slower than one in fp16, by what its passes take.
    """
    return [PredictedSpeeds.of(costs[plan.choice.kv], plan.choice.drafted) for plan in found]


def draw_plans(
    found: Sequence[MemoryPlan],
    speeds: Sequence[PredictedSpeeds],
    budget: int | None,
    path: Path,
    *,
    title: str,
) -> None:
    """Draw panels over the budget: tokens per second, tokens of context, concessions.

    ``speeds`` are those of the plans, see ``predicted``. ``budget`` is marked.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.4, 7.2), layout="constrained")
    panels = figure.subplots(3, 1, sharex=True, height_ratios=[2.2, 1.6, 1.4])
    budgets = [plan.budget / 1e6 for plan in found]
    _draw_speed(panels[0], budgets, speeds)
    panels[1].step(budgets, [plan.choice.context for plan in found], color=_CONTEXT, where="post")
    panels[1].set_ylim(bottom=0)
    panels[1].set_ylabel("context, tokens")
    _draw_given_up(panels[2], found)
    panels[2].set_xlabel("memory budget, MB: weights, KV cache, drafters, Python and all")
    for axes in panels:
        axes.grid(alpha=0.3)
        if budget:
            axes.axvline(budget / 1e6, color="black", linewidth=1)
    figure.suptitle(title, fontsize=11)
    save_figure(figure, path)


def _draw_speed(axes: Any, budgets: Sequence[float], speeds: Sequence[PredictedSpeeds]) -> None:
    plain, most = [speed.plain for speed in speeds], [speed.most for speed in speeds]
    axes.fill_between(budgets, plain, most, step="post", color=_DRAFTS, alpha=0.35,
                      label="with drafts: up to this, were all of them right")  # fmt: skip
    axes.step(budgets, plain, color=_PLAIN, where="post", label="one token a pass")
    axes.set_ylim(bottom=0)
    axes.set_ylabel("tokens/s at a short context,\nas quick as the machine is now")
    axes.legend(frameon=False, loc="lower left", bbox_to_anchor=(0, 1), ncols=2)


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
