"""Picture of decoding, prefill, load and memory beside other runtimes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from edgedec.bench.harness.pairing import Spread, spread
from edgedec.bench.plots.figure import BLUE, ORANGE, save_figure
from edgedec.bench.studies.speed import SpeedReport


def draw_speed(report: SpeedReport, path: Path, *, model: str, threads: int) -> None:
    """Draw a panel for each measure and a bar for each side, with quartiles as whiskers."""
    from matplotlib.figure import Figure

    sides = report.sides.values()
    panels = {
        "decoding, tokens/s": [spread(side.decode) for side in sides],
        "prefill, tokens/s": [spread(side.prefill) for side in sides],
        "load, s (lower is better)": [spread(side.load_s) for side in sides],
        "peak memory, MB (lower is better)": [Spread(*[side.peak_rss_bytes / 1e6] * 3) for side in sides],
    }
    figure = Figure(figsize=(9.6, 6.4), layout="constrained")
    for axes, (title, values) in zip(figure.subplots(2, 2).flat, panels.items(), strict=True):
        _bars(axes, title, list(report.sides), values)
    figure.suptitle(
        f"{model}, {threads} threads, {len(report.study.prompts)} prompts,"
        f" {report.study.max_tokens} tokens each; median, quartiles"
    )
    save_figure(figure, path)


def _bars(axes: Any, title: str, names: list[str], values: list[Spread]) -> None:
    medians = [value.median for value in values]
    whiskers = [[v.median - v.low for v in values], [v.high - v.median for v in values]]
    colours = [ORANGE, *[BLUE] * (len(names) - 1)]
    bars = axes.barh(names, medians, xerr=whiskers, capsize=4, color=colours)
    labels = [f"{median:.0f}" if median >= 1000 else f"{median:.3g}" for median in medians]
    axes.bar_label(bars, labels, padding=3)
    axes.margins(x=0.15)
    axes.invert_yaxis()  # the first one on top
    axes.set_title(title)
    axes.grid(axis="x", alpha=0.3)
    axes.set_axisbelow(True)
