"""The table of energy of ``edgedec bench drafts``, ``memory`` and ``accuracy``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgedec.bench.harness.study import PLAIN
from edgedec.cli.bench.tables import new_table, number, wide_console

if TYPE_CHECKING:
    from edgedec.bench.harness.energy import Energies


def show_energies(found: Energies, base: str = PLAIN, unit: str = "mJ/token") -> None:
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
