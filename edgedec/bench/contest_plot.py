"""A contest as a picture: a row of dots per category, a colour per side, quartiles as whiskers."""

from __future__ import annotations

from pathlib import Path

from edgedec.bench.contest import PLAIN
from edgedec.bench.contest_report import ContestReport
from edgedec.bench.plot import save
from edgedec.bench.summary import spread

# The palette of Okabe and Ito, told apart with any kind of colour vision; ours are the warm ones.
_OURS = ("#D55E00", "#E69F00", "#CC79A7", "#F0E442")
_THEIRS = ("#0072B2", "#56B4E9", "#009E73", "#000000")
_MARKERS = "osD^vP*X"


def draw_contest(report: ContestReport, path: Path, *, title: str) -> None:
    """Write tokens per second by category: medians as dots, quartiles as lines, speed-ups over plain beside
    the dots of the sides that draft.
    """
    from matplotlib.figure import Figure

    rows = [(name, report.categories()[name]) for name in report.groups]
    if len(rows) > 1:
        rows.append(("all", list(report.questions)))
    sides = sorted(report.sides, key=lambda side: side in report.ours)  # the others first, ours below
    step = 0.8 / len(sides)
    figure = Figure(figsize=(9.6, 1.6 + len(rows) * (0.35 + 0.22 * len(sides))), layout="constrained")
    axes = figure.add_subplot()
    looks = _looks(report, sides)
    for number, side in enumerate(sides):
        colour, marker = looks[side]
        label: str | None = side if side != PLAIN else f"{PLAIN} (plain)"
        for row, (_, questions) in enumerate(rows):
            score = report.score(side, questions)
            if not score.rates:
                continue
            rate, at = spread(score.rates), row - 0.4 + step * (number + 0.5)
            axes.plot([rate.low, rate.high], [at, at], color=colour, linewidth=2.5, alpha=0.45)
            axes.plot(rate.median, at, marker, color=colour, markersize=8, label=label,
                      markeredgecolor="black", markeredgewidth=0.5)  # fmt: skip
            label = None
            ratio = score.ratio(PLAIN)
            if ratio and side != PLAIN:
                axes.annotate(f"{ratio.pairs.median:.2f}x", (rate.high, at), xytext=(6, 0), fontsize=9,
                              textcoords="offset points", va="center", color="0.25")  # fmt: skip
    for row in range(1, len(rows)):
        axes.axhline(row - 0.5, color="0.85", linewidth=0.8)
    axes.set_yticks(range(len(rows)), [name.replace("_", " ") for name, _ in rows])
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.margins(x=0.12)  # room for the speed-ups
    axes.set_xlim(left=0)
    axes.set_xlabel(f"decoding, tokens/s: median and quartiles over replies; x: over plain {PLAIN}")
    axes.set_title(title, fontsize=11)
    axes.grid(axis="x", alpha=0.3)
    axes.set_axisbelow(True)
    figure.legend(loc="outside lower center", ncols=min(len(sides), 4), frameon=False)
    save(figure, path)


def _looks(report: ContestReport, sides: list[str]) -> dict[str, tuple[str, str]]:
    ours = [side for side in sides if side in report.ours]
    theirs = [side for side in sides if side not in report.ours]
    colours = {side: _OURS[index % len(_OURS)] for index, side in enumerate(reversed(ours))}
    colours |= {side: _THEIRS[index % len(_THEIRS)] for index, side in enumerate(theirs)}
    return {side: (colours[side], _MARKERS[index % len(_MARKERS)]) for index, side in enumerate(sides)}
