"""The curve of ``edgedec bench kernels`` as a picture, for those who have matplotlib."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from edgedec.bench.passes import KernelReport
from edgedec.core.errors import UsageError
from edgedec.core.files import atomic_path

FORMATS = (".png", ".svg", ".pdf")


def check_plot(path: Path) -> None:
    """Raises UsageError when ``path`` cannot be drawn: better before minutes of measuring than after."""
    if path.suffix.lower() not in FORMATS:
        raise UsageError(f"cannot draw {path.name}", hint=f"end its name with one of: {', '.join(FORMATS)}")
    if find_spec("matplotlib") is None:
        raise UsageError("plots need matplotlib", hint="install it with `pip install 'edgedec[bench]'`")


def draw_passes(report: KernelReport, path: Path) -> None:
    """Write time over tokens per pass, both axes logarithmic, with the quartiles as a band."""
    from matplotlib.figure import Figure

    tokens = [cost.tokens for cost in report.passes]
    figure = Figure(figsize=(6.4, 4.0), layout="constrained")
    axes = figure.add_subplot()
    axes.plot(tokens, [cost.relative.median for cost in report.passes], marker="o", label="measured")
    axes.fill_between(
        tokens,
        [cost.relative.low for cost in report.passes],
        [cost.relative.high for cost in report.passes],
        alpha=0.25,
    )
    axes.plot(tokens, tokens, linestyle=":", color="grey", label="one by one")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    axes.set_xticks(tokens, [str(count) for count in tokens])
    axes.set_xlabel("tokens in the pass")
    axes.set_ylabel("time relative to one token")
    axes.set_title(f"{report.model}, {report.isa}, {report.threads} threads")
    axes.grid(alpha=0.3)
    axes.legend()
    with atomic_path(path) as temporary:
        figure.savefig(temporary, format=path.suffix[1:].lower())
