"""Picture of trimmed heads: coverage and predicted speed over their size."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from edgedec.bench.plots.figure import BLUE, GREY, ORANGE, save_figure
from edgedec.bench.studies.trim import TrimReport


def draw_trims(report: TrimReport, path: Path) -> None:
    """Draw two panels over the rows that a draft step reads: coverage, and speed relative to the full head.

    Whole tiles and single ids are lines of their own; the head that was chosen is marked.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 6.0), layout="constrained")
    panels = figure.subplots(2, 1, sharex=True)
    for whole, colour, label in ((True, BLUE, "whole tiles"), (False, ORANGE, "single ids")):
        points = [point for point in report.points if point.subset.whole == whole or point.subset.full]
        rows = [point.subset.rows for point in points]
        covered = [100 * point.coverage for point in points]
        panels[0].plot(rows, covered, marker="o", color=colour, label=label)
        relative = [point.tokens_per_s / report.full.tokens_per_s for point in points]
        panels[1].plot(rows, relative, marker="o", color=colour, label=label)
    panels[0].set_ylabel("held-out tokens covered, %")
    panels[1].set_ylabel("predicted tokens/s,\nrelative to the full head")
    panels[1].set_xlabel("rows of the head that a draft step reads")
    panels[1].axhline(1.0, linestyle=":", color=GREY)
    for axes in panels:
        _finish(axes, report)
    figure.suptitle(f"{report.model}: trimmed heads")
    save_figure(figure, path)


def _finish(axes: Any, report: TrimReport) -> None:
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.axvline(report.chosen.subset.rows, color="black", linewidth=1, label="chosen")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
