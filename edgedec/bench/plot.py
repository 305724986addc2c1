"""The results of ``edgedec bench kernels`` and ``bench run`` as pictures, for those who have matplotlib."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

from edgedec.bench.passes import OURS, KernelReport
from edgedec.bench.summary import Spread, spread
from edgedec.bench.versus import VersusReport
from edgedec.core.errors import UsageError
from edgedec.core.files import atomic_path

FORMATS = (".png", ".svg", ".pdf")
_OURS = "tab:orange"


def check_plot(path: Path) -> None:
    """Raises UsageError when ``path`` cannot be drawn: better before minutes of measuring than after."""
    if path.suffix.lower() not in FORMATS:
        raise UsageError(f"cannot draw {path.name}", hint=f"end its name with one of: {', '.join(FORMATS)}")
    if find_spec("matplotlib") is None:
        raise UsageError("plots need matplotlib", hint="install it with `pip install 'edgedec[bench]'`")


def draw_passes(report: KernelReport, path: Path) -> None:
    """Write time over tokens per pass, a line per side, both axes logarithmic, the quartiles as a band."""
    from matplotlib.figure import Figure

    tokens = [cost.tokens for cost in report.passes]
    figure = Figure(figsize=(6.4, 4.0), layout="constrained")
    axes = figure.add_subplot()
    lines = {OURS: report.passes}
    lines |= {name: tuple(cost.cost for cost in costs) for name, costs in report.peers.items()}
    colours = [_OURS, "tab:blue", "tab:green", "tab:red"]
    for (name, costs), colour in zip(lines.items(), colours, strict=False):
        axes.plot(tokens, [cost.relative.median for cost in costs], marker="o", color=colour, label=name)
        low, high = ([getattr(cost.relative, end) for cost in costs] for end in ("low", "high"))
        axes.fill_between(tokens, low, high, color=colour, alpha=0.25)
    axes.plot(tokens, tokens, linestyle=":", color="grey", label="one by one")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    axes.set_xticks(tokens, [str(count) for count in tokens])
    axes.set_xlabel("tokens in the pass")
    axes.set_ylabel("time relative to one token of the same side")
    axes.set_title(f"{report.model}, {report.isa}, {report.threads} threads")
    axes.grid(alpha=0.3)
    axes.legend()
    save(figure, path)


def draw_versus(report: VersusReport, path: Path, *, model: str, threads: int) -> None:
    """Write a bar per side for each thing measured, with its quartiles as whiskers, its median beside it."""
    from matplotlib.figure import Figure

    sides = report.sides.values()
    panels = {
        "decoding, tokens/s": [spread(side.decode) for side in sides],
        "prefill, tokens/s": [spread(side.prefill) for side in sides],
        "load, s (less is better)": [spread(side.load_s) for side in sides],
        "peak memory, MB (less is better)": [Spread(*[side.peak_rss_bytes / 1e6] * 3) for side in sides],
    }
    figure = Figure(figsize=(9.6, 6.4), layout="constrained")
    for axes, (title, values) in zip(figure.subplots(2, 2).flat, panels.items(), strict=True):
        _bars(axes, title, list(report.sides), values)
    figure.suptitle(
        f"{model}, {threads} threads, {len(report.plan.prompts)} prompts,"
        f" {report.plan.max_tokens} tokens each; median, quartiles"
    )
    save(figure, path)


def _bars(axes: Any, title: str, names: list[str], values: list[Spread]) -> None:
    medians = [value.median for value in values]
    whiskers = [[v.median - v.low for v in values], [v.high - v.median for v in values]]
    colours = [_OURS, *["tab:blue"] * (len(names) - 1)]
    bars = axes.barh(names, medians, xerr=whiskers, capsize=4, color=colours)
    labels = [f"{median:.0f}" if median >= 1000 else f"{median:.3g}" for median in medians]
    axes.bar_label(bars, labels, padding=3)
    axes.margins(x=0.15)
    axes.invert_yaxis()  # the first one on top
    axes.set_title(title)
    axes.grid(axis="x", alpha=0.3)
    axes.set_axisbelow(True)


def save(figure: Any, path: Path) -> None:
    """Write a figure in the format that the name of ``path`` ends with. Raises StorageError."""
    with atomic_path(path) as temporary:
        figure.savefig(temporary, format=path.suffix[1:].lower(), dpi=200)
