"""Files and formats of pictures."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

from edgedec.core.errors import UsageError
from edgedec.disk.files import atomic_path
from edgedec.disk.installing import pip_install

FORMATS = (".png", ".svg", ".pdf")
# Palette of Okabe and Ito: colours that people with any kind of colour vision can tell apart.
BLUE, GREEN, ORANGE, PINK, YELLOW, GREY = "#0072B2", "#009E73", "#D55E00", "#CC79A7", "#E69F00", "#999999"


def check_plot(path: Path) -> None:
    """Raise UsageError when ``path`` cannot be drawn. Call it before minutes of measuring."""
    if path.suffix.lower() not in FORMATS:
        raise UsageError(f"cannot draw {path.name}", hint=f"end its name with one of: {', '.join(FORMATS)}")
    if find_spec("matplotlib") is None:
        raise UsageError("plots need matplotlib", hint=f"`{pip_install('plot')}`")


def doubling(axes: Any) -> None:
    """Give ``axes`` scales on which every doubling is as long, with ticks that read 1, 2, 4, 8."""
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter("{x:g}")


def save_figure(figure: Any, path: Path) -> None:
    """Write a figure in the format that the name of ``path`` ends with. Raises StorageError."""
    with atomic_path(path) as temporary:
        figure.savefig(temporary, format=path.suffix[1:].lower(), dpi=200)
