"""Tables of figures, and how a figure looks in one."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console
    from rich.table import Table

    from edgedec.bench.contest_report import Ratio


_WIDTH = 1000
"""More than any line has: a column cut short would be no figure, a terminal wraps what it cannot show."""


def wide_console() -> Console:
    from rich.console import Console

    return Console(highlight=False, markup=False, width=_WIDTH)


def new_table(headings: Sequence[str]) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for heading in headings:
        table.add_column(heading, justify="right" if heading else "left", no_wrap=True)
    return table


def quartiles(ratio: Ratio | None) -> str:
    if ratio is None:
        return "-"
    return f"{ratio.pairs.median:.2f} ({ratio.pairs.low:.2f}-{ratio.pairs.high:.2f})"


def number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def megabytes(count: float) -> str:
    """Bytes, in one unit for all: figures below each other are compared."""
    return f"{count / 1e6:.1f} MB"
