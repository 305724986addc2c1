"""Pictures of two models that take turns: quality over the share of the large one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgedec.bench.plots.figure import BLUE, GREY, save_figure

if TYPE_CHECKING:
    from edgedec.bench.studies.switching import SideResult


def draw_sides(results: Mapping[str, Sequence[SideResult]], path: Path, *, title: str) -> None:
    """Draw right answers over the share of the large model, with their 95 % intervals, and the cost below.

    There is a column for each task.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(1.6 + 4.4 * len(results), 8.4), layout="constrained")
    columns = figure.subplots(3, len(results), sharex=True, squeeze=False)
    for at, (task, sides) in enumerate(results.items()):
        panels = [row[at] for row in columns]
        chance = [one for one in sides if one.side.startswith("random")]
        rule = sorted((one for one in sides if one not in chance), key=lambda one: one.share)
        _draw_side(panels, rule, "o-", BLUE, "by entropy")
        _draw_side(panels, chance, "s", GREY, "at random")
        panels[0].set_title(f"{task}, {sides[0].asked} problems")
        panels[0].set_ylim(-2, 102)
        panels[2].set_xlabel("tokens that the large model writes, %")
        for axes in panels:
            axes.grid(alpha=0.3)
        for axes in panels[1:]:
            axes.set_ylim(0.0, 1.05 * axes.dataLim.y1)
    estimated = any(one.estimated for sides in results.values() for one in sides)
    columns[0][0].set_ylabel("right answers, %")
    columns[1][0].set_ylabel("processor seconds per reply")
    columns[2][0].set_ylabel("joules per reply" + (" (estimate)" if estimated else ""))
    columns[0][0].legend(frameon=False)
    figure.suptitle(title)
    save_figure(figure, path)


def _draw_side(
    panels: Sequence[Any], sides: Sequence[SideResult], style: str, colour: str, label: str
) -> None:
    shares = [100 * one.share for one in sides]
    right = [100 * one.right / one.asked for one in sides]
    spans = [(100 * low, 100 * high) for low, high in (one.interval for one in sides)]
    below = [max(value - low, 0.0) for value, (low, _) in zip(right, spans, strict=True)]
    above = [max(high - value, 0.0) for value, (_, high) in zip(right, spans, strict=True)]
    panels[0].errorbar(shares, right, (below, above), fmt=style, color=colour, label=label, capsize=3)
    panels[1].plot(shares, [one.cpu_s for one in sides], style, color=colour)
    if all(one.joules is not None for one in sides):
        panels[2].plot(shares, [one.joules for one in sides], style, color=colour)
