"""The table of energy of ``edgedec bench drafts``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgedec.bench.harness.replies import PLAIN
from edgedec.cli.bench.tables import new_table, number, wide_console

if TYPE_CHECKING:
    from edgedec.bench.studies.energies import Energies


def show_energies(found: Energies) -> None:
    """Print joules a token of each side, beside those of plain decoding."""
    plain = found.by_side.get(PLAIN)
    table = new_table(("", "mJ/token", f"of {PLAIN}"))
    for side, one in found.by_side.items():
        table.add_row(side, one.words(), number(one.joules / plain.joules if plain else None, 2))
    console = wide_console()
    console.print(f"\n{found.heading()}", soft_wrap=True)
    console.print(table)
