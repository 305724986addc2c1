"""Pictures of two models that take turns: quality over the share of the large one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from edgedec.bench.plots.figure import BLUE, GREY, ORANGE, save_figure

if TYPE_CHECKING:
    from edgedec.bench.studies.switching import SideResult
    from edgedec.switch.traces import CalibrationPoint


def draw_calibration(
    points: Sequence[CalibrationPoint], chosen: CalibrationPoint, path: Path, *, title: str
) -> None:
    """Draw the agreement with the large model over its share of tokens, beside random switching."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    axes = figure.subplots()
    ordered = sorted(points, key=lambda point: point.share)
    shares, found = ([100 * getattr(point, name) for point in ordered] for name in ("share", "agreement"))
    axes.plot(shares, found, marker="o", markersize=4, color=BLUE, label="by entropy")
    alone = min(points, key=lambda point: point.share)
    if alone.share < 1.0:
        axes.plot([100 * alone.share, 100], [100 * alone.agreement, 100], ":", color=GREY, label="at random")
    at = "small model alone" if math.isinf(chosen.rule.high_bits) else f"{chosen.rule.high_bits:g} bits"
    axes.plot([100 * chosen.share], [100 * chosen.agreement], "D", color=ORANGE, label=f"chosen: above {at}")
    axes.set_xlabel("tokens that the large model writes, %")
    axes.set_ylabel("tokens as the large model's, %")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    figure.suptitle(title)
    save_figure(figure, path)


def draw_sides(results: Sequence[SideResult], path: Path, *, title: str) -> None:
    """Draw right answers over the share of the large model, with their 95 % intervals, and the cost below."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 6.4), layout="constrained")
    panels = figure.subplots(2, 1, sharex=True)
    chance = [one for one in results if one.side.startswith("random")]
    rule = sorted((one for one in results if one not in chance), key=lambda one: one.share)
    for sides, colour, label in ((rule, BLUE, "by entropy"), (chance, GREY, "at random")):
        shares = [100 * one.share for one in sides]
        right = [100 * one.right / one.asked for one in sides]
        spans = [(100 * low, 100 * high) for low, high in (one.interval for one in sides)]
        below = [value - low for value, (low, _) in zip(right, spans, strict=True)]
        above = [high - value for value, (_, high) in zip(right, spans, strict=True)]
        style = "o-" if colour == BLUE else "s"
        panels[0].errorbar(shares, right, (below, above), fmt=style, color=colour, label=label, capsize=3)
        panels[1].plot(shares, [one.seconds for one in sides], style, color=colour, label=label)
    panels[0].set_ylabel("right answers, %")
    panels[1].set_ylabel("seconds per reply")
    panels[1].set_xlabel("tokens that the large model writes, %")
    panels[1].set_ylim(bottom=0)
    for axes in panels:
        axes.grid(alpha=0.3)
        axes.legend(frameon=False)
    figure.suptitle(title)
    save_figure(figure, path)
