"""Picture of pass costs: time over tokens per pass."""

from __future__ import annotations

from pathlib import Path

from edgedec.bench.harness.runtimes import EDGEDEC
from edgedec.bench.plots.figure import BLUE, GREEN, ORANGE, PINK, doubling, save_figure
from edgedec.bench.studies.kernels import KernelReport


def draw_pass_costs(report: KernelReport, path: Path) -> None:
    """Draw a line for each side, with quartiles as a band; both axes are logarithmic."""
    from matplotlib.figure import Figure

    tokens = [cost.tokens for cost in report.passes]
    figure = Figure(figsize=(6.4, 4.0), layout="constrained")
    axes = figure.add_subplot()
    lines = {EDGEDEC: report.passes}
    lines |= {name: tuple(cost.cost for cost in costs) for name, costs in report.peers.items()}
    colours = [ORANGE, BLUE, GREEN, PINK]
    for (name, costs), colour in zip(lines.items(), colours, strict=False):
        axes.plot(tokens, [cost.relative.median for cost in costs], marker="o", color=colour, label=name)
        low, high = ([getattr(cost.relative, end) for cost in costs] for end in ("low", "high"))
        axes.fill_between(tokens, low, high, color=colour, alpha=0.25)
    axes.plot(tokens, tokens, linestyle=":", color="grey", label="one by one")
    doubling(axes)
    axes.set_xticks(tokens, [str(count) for count in tokens])
    axes.set_xlabel("tokens in the pass")
    axes.set_ylabel("time relative to one token of the same side")
    axes.set_title(f"{report.model}, {report.isa}, {report.threads} threads")
    axes.grid(alpha=0.3)
    axes.legend()
    save_figure(figure, path)
