"""Picture of drafter sets: speed-up and block efficiency by category."""

from __future__ import annotations

from pathlib import Path

from edgedec.bench.harness.study import PLAIN
from edgedec.bench.plots.figure import BLUE, GREEN, GREY, ORANGE, PINK, YELLOW, save_figure
from edgedec.bench.studies.drafts import DraftsReport

_COLOURS = (ORANGE, BLUE, GREEN, PINK, YELLOW, GREY)
_WIDTH = 0.8
"""Share of a category's place that bars take."""


def draw_drafts(report: DraftsReport, path: Path, *, title: str) -> None:
    """Draw two panels with a bar per side and group of questions: speed-up over plain, and tokens per pass.

    The speed-up is that by processor time where it is known, else the total by the clock. A black line is the
    speed-up predicted by costs.
    """
    from matplotlib.figure import Figure

    groups = {name: asked for name, asked in report.categories().items() if name in report.groups}
    groups["all"] = list(report.questions)
    sides = [side for side in report.sides if side != PLAIN]
    figure = Figure(figsize=(9.6, 6.4), layout="constrained")
    speeds, lengths = figure.subplots(2, 1, sharex=True)
    width = _WIDTH / max(len(sides), 1)
    for number, side in enumerate(sides):
        places = [place + (number + 0.5) * width - _WIDTH / 2 for place in range(len(groups))]
        scores = [report.score(side, asked) for asked in groups.values()]
        ratios = [score.ratio(PLAIN) for score in scores]
        measured = [(one.by_cpu or one.total) if one else 0.0 for one in ratios]
        colour = _COLOURS[number % len(_COLOURS)]
        speeds.bar(places, measured, width=0.9 * width, color=colour, label=side)
        for place, score in zip(places, scores, strict=True):
            if (predicted := score.predicted_speed_up) is not None:
                speeds.hlines(predicted, place - 0.45 * width, place + 0.45 * width, color="black")
        lengths.bar(places, [one.block_efficiency or 0.0 for one in scores], width=0.9 * width, color=colour)
    speeds.axhline(1.0, linestyle=":", color=GREY)
    speeds.set_ylabel("speed-up over plain decoding\n(line: predicted)")
    lengths.set_ylabel("tokens per pass")
    lengths.set_xticks(range(len(groups)), list(groups))
    speeds.legend(frameon=False)
    for axes in (speeds, lengths):
        axes.grid(axis="y", alpha=0.3)
        axes.set_axisbelow(True)
    figure.suptitle(title)
    save_figure(figure, path)
