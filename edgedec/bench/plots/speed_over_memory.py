"""Picture of speed over memory budgets."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from edgedec.bench.plots.figure import BLUE, GREEN, ORANGE, PINK, save_figure
from edgedec.bench.studies.speed_within_budgets import BudgetRow

_COLOURS = (ORANGE, BLUE, GREEN, PINK)


def draw_speed_over_memory(
    rows: Sequence[BudgetRow], plain: dict[str, float | None], path: Path, *, title: str
) -> None:
    """Draw decoding speed relative to no budget over generation memory, a line for each drafter set.

    Whiskers are quartiles. Filled marks: something drafts; squares: the KV cache is in int8. ``plain`` has
    the relative speed without drafts, by drafter set.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.6, 4.8), layout="constrained")
    axes = figure.add_subplot()
    shown = [row for row in rows if row.ratio]
    speeds = [row.ratio.pairs.high for row in shown if row.ratio]
    most = max([*speeds, *(speed for speed in plain.values() if speed is not None)], default=1.0)
    for draft, colour in zip(dict.fromkeys(row.draft for row in shown), _COLOURS, strict=False):
        points = sorted((row for row in shown if row.draft == draft), key=lambda row: row.allowed)
        _line(axes, draft, points, colour)
        if (ends := points[0].drafts_end) is not None:
            axes.axvline(ends / 1e6, color=colour, linestyle=":", linewidth=1)
            axes.annotate("drafts stop", (ends / 1e6, 0.03 * most), rotation=90, fontsize=8, ha="right",
                          xytext=(-2, 0), textcoords="offset points", color=colour)  # fmt: skip
        if draft != "off" and (without := plain.get(draft)) is not None:
            axes.axhline(without, color="0.6", linestyle="--", linewidth=1)
            axes.annotate("plain decoding", (0.01, without), xycoords=("axes fraction", "data"), fontsize=8,
                          xytext=(0, 3), textcoords="offset points", color="0.4")  # fmt: skip
    looks = {
        "something drafts": ("o", "full"),
        "nothing drafts": ("o", "none"),
        "cache in int8": ("s", "none"),
    }
    for label, (marker, fill) in looks.items():
        axes.plot([], [], marker, color="0.4", fillstyle=fill, label=label)
    axes.set_ylim(0, 1.15 * most)
    axes.set_xlim(left=0)
    axes.set_xlabel("generation memory allowed, MB (without weights and the loaded process)")
    axes.set_ylabel("tokens/s relative to unconstrained")
    axes.set_title(title, fontsize=11)
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, loc="lower right")
    save_figure(figure, path)


def _line(axes: Any, draft: str, points: Sequence[BudgetRow], colour: str) -> None:
    medians = [row.ratio.pairs.median for row in points if row.ratio]
    axes.plot([row.allowed / 1e6 for row in points], medians, color=colour, label=f"drafts: {draft}")
    for row, median in zip(points, medians, strict=True):
        assert row.ratio is not None
        at, spread = row.allowed / 1e6, row.ratio.pairs
        axes.plot([at, at], [spread.low, spread.high], color=colour, linewidth=2, alpha=0.4)
        axes.plot(at, median, "o" if row.exact else "s", color=colour, markersize=7,
                  fillstyle="full" if row.drafts else "none")  # fmt: skip
        mark = f"{row.level}\n{row.unanswered} too long" if row.unanswered else row.level
        axes.annotate(mark, (at, spread.high), xytext=(0, 5), textcoords="offset points", ha="center",
                      fontsize=8, color="0.25")  # fmt: skip
