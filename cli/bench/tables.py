"""Tables of figures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgedec.bench.harness.runtimes import EDGEDEC

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console
    from rich.table import Table

    from edgedec.bench.harness.energy import Energies
    from edgedec.bench.harness.pairing import Spread

_WIDTH = 1000
"""Wider than any line. A column that is cut short would hide a figure; a terminal wraps long lines."""


def wide_console() -> Console:
    from rich.console import Console

    return Console(highlight=False, markup=False, width=_WIDTH)


def new_table(headings: Sequence[str]) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for heading in headings:
        table.add_column(heading, justify="right" if heading else "left", no_wrap=True)
    return table


def quartiles(spread: Spread | None, digits: int = 2) -> str:
    if spread is None:
        return "-"
    return f"{spread.median:.{digits}f} ({spread.low:.{digits}f}-{spread.high:.{digits}f})"


def number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.0%}"


def megabytes(count: float) -> str:
    """Format bytes in one unit, so that figures below each other can be compared."""
    return f"{count / 1e6:.1f} MB"


def show_energies(found: Energies, base: str = EDGEDEC, unit: str = "mJ/token") -> None:
    """Print joules a token of each side, beside those of the side ``base`` where there are others."""
    plain = found.by_side.get(base)
    compared = (f"of {base}",) if plain and len(found.by_side) > 1 else ()
    table = new_table(("", unit, *compared))
    for side, one in found.by_side.items():
        ratio = (number(one.joules / plain.joules, 2),) if plain and compared else ()
        table.add_row(side, one.words(), *ratio)
    console = wide_console()
    console.print(f"\n{found.heading(unit)}", soft_wrap=True)
    if found.by_side:
        console.print(table)
