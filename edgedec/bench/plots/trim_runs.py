"""Picture of trimmed heads by their rounds: coverage and acceptance, MBSU and speed over their size."""

from __future__ import annotations

from pathlib import Path

from edgedec.bench.plots.figure import BLUE, GREY, ORANGE, save_figure
from edgedec.bench.studies.trim_runs import TrimRuns


def draw_trim_runs(found: TrimRuns, path: Path, *, title: str) -> None:
    """Draw two panels over the ids that the head has."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 6.0), layout="constrained")
    shares, speeds = figure.subplots(2, 1, sharex=True)
    ids = [run.subset.ids.size for run in found.runs]
    shares.plot(
        ids, [100 * run.coverage for run in found.runs], "o-", color=BLUE, label="held-out tokens covered"
    )
    accepted = [100 * (run.score.acceptance_rate or 0.0) for run in found.runs]
    shares.plot(ids, accepted, "o-", color=ORANGE, label="drafted tokens accepted")
    shares.set_ylabel("%")
    memory = [one.streamed if (one := run.score.mbsu) else 0.0 for run in found.runs]
    speeds.plot(ids, memory, "o-", color=BLUE, label="MBSU")
    measured = [run.speed_up or 0.0 for run in found.runs]
    speeds.plot(ids, measured, "o-", color=ORANGE, label="speed over plain decoding")
    speeds.axhline(1.0, linestyle=":", color=GREY)
    speeds.set_xlabel("ids of the trimmed head")
    for axes in (shares, speeds):
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter("{x:,.0f}")
        axes.grid(alpha=0.3)
        axes.legend(frameon=False)
    figure.suptitle(title)
    save_figure(figure, path)
