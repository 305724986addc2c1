"""``edgedec list``: models that are installed, and the catalogue of those that can be pulled by name."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click

from edgedec.cli import options as opt
from edgedec.cli import screen
from edgedec.cli.command import new_command
from edgedec.cli.services import services
from edgedec.core.errors import EdgeDecError
from edgedec.core.units import size

if TYPE_CHECKING:
    from edgedec.bundle.manifest import Manifest
    from edgedec.models import Installed
    from edgedec.models.catalogue import Entry

_PIPE_COLUMNS = 1000
"""Width of the table where there is no terminal: nothing is cut."""
_NUMBERS = (1, 2)
"""Columns of the table with numbers."""
_LICENCE_FROM = 100
"""Columns of a terminal from which on the table has the licences."""


@new_command(
    "list",
    "edgedec list",
    "edgedec list --all",
    "edgedec list --json | jq -r '.installed[].name'",
)
@click.option("-a", "--all", "everything", is_flag=True, help="Show the catalogue too, to choose from.")
@opt.json_option
@click.pass_context
def command(ctx: click.Context, everything: bool, as_json: bool) -> None:
    """Show the models that are installed.

    --all also shows those that can be pulled by name, with the memory that a conversation of 4096 tokens
    takes. `edgedec show NAME` says everything about one of them.
    """
    from edgedec.models.catalogue import CATALOGUE

    store = services(ctx).store()
    installed = store.list()
    if as_json:
        screen.show_json(_document(str(store.home), installed, CATALOGUE))
        return
    if installed:
        click.echo(f"Installed in {store.home}:")
        _show_installed(installed, CATALOGUE)
    else:
        click.echo("No model is installed yet.")
    there = {one.name for one in installed}
    missing = [entry for name, entry in CATALOGUE.items() if name not in there and not entry.base]
    if everything:
        _show_catalogue(missing)
    elif missing:
        click.echo(f"`edgedec list --all` shows {len(missing)} more to pull by name.")


def about_size(entry: Entry) -> str:
    """Return the bytes of a download in words; the hub has the last word on those that are estimates."""
    return rounded(entry.recipe.bytes) if entry.exact else f"~{rounded(entry.recipe.bytes)}"


def rounded(count: int) -> str:
    """Return bytes in whole MB, or in GB.

    >>> rounded(98_400_000), rounded(2_019_000_000)
    ('98 MB', '2.0 GB')
    """
    return f"{count / 1e6:.0f} MB" if count < 999_500_000 else f"{count / 1e9:.1f} GB"


def _show_installed(installed: Sequence[Installed], catalogue: Mapping[str, Entry]) -> None:
    width = max(len(one.name) for one in installed)
    for one in installed:
        manifest = _manifest(one)
        entry = catalogue.get(one.name)
        note = (
            f"{entry.recipe.title}; licence: {entry.recipe.licence.name}"
            if entry
            else _made_of(one, manifest)
        )
        click.echo(cut(f"  {one.name:<{width}}  {size(one.bytes):>9}  {note}".rstrip(), columns()))


def _made_of(model: Installed, manifest: Manifest | None) -> str:
    """Return source and quantisation of a model that is not in the catalogue."""
    from edgedec.models.hub_origin import read_hub_origin

    source = manifest.source if manifest else {}
    origin = read_hub_origin(model.path)
    made_of = f"from {origin.reference if origin else source['file']}" if "file" in source else ""
    calibrated = "calibrated" if "calibration tokens" in source else ""
    text = "; ".join(filter(None, [made_of, str(source.get("quant", "")), calibrated]))
    return "".join(char for char in text if char.isprintable())[:200]


def _manifest(model: Installed) -> Manifest | None:
    """Return the manifest; None for a broken one, which opening the model reports."""
    from edgedec.bundle.manifest import Manifest

    try:
        return Manifest.load(model.path)
    except EdgeDecError:
        return None


def _show_catalogue(entries: Sequence[Entry]) -> None:
    """Show a table that fits the terminal: narrow ones leave columns out and cut the last one."""
    from edgedec.models.catalogue import CATALOGUE, USUAL_CONTEXT

    width = columns()
    shown = [True, True, True, width >= _LICENCE_FROM, True]
    rows = [("NAME", "DOWNLOAD", "MEMORY", "LICENCE", "GOOD FOR")]
    rows += [
        (one.name, about_size(one), rounded(one.memory()), one.recipe.licence.name, one.good_for)
        for one in entries
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    click.echo("\nCan be pulled by name:")
    for row in rows:
        cells = [
            f"{cell:>{width}}" if column in _NUMBERS else f"{cell:<{width}}"
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
            if shown[column]
        ]
        click.echo(cut("  ".join(cells).rstrip(), width))
    click.echo(f"\nMEMORY: with {USUAL_CONTEXT} tokens of context. ~: an estimate.")
    tried = ", ".join(one.name for one in CATALOGUE.values() if one.tested == "real" and not one.base)
    others = "small copies of the others with random weights, so that a fault of one of them may be new"
    click.echo(textwrap.fill(f"EdgeDec is tested with {tried}; and with {others}.", width))


def cut(line: str, width: int) -> str:
    """Shorten a line to ``width`` columns, if need be at the end of a word."""
    if len(line) <= width:
        return line
    head, space, _ = line[:width].rpartition(" ")
    return (head if space else line[: width - 1]).rstrip(" ,;") + "…"


def columns() -> int:
    """Return the columns of the terminal; a pipe has more."""
    piped = not sys.stdout.isatty() and "COLUMNS" not in os.environ
    return _PIPE_COLUMNS if piped else shutil.get_terminal_size().columns


def _document(home: str, installed: Sequence[Installed], catalogue: Mapping[str, Entry]) -> dict[str, object]:
    from edgedec.models.catalogue import stated_context

    names = {one.name for one in installed}
    return {
        "home": home,
        "installed": [
            {
                "name": one.name,
                "path": str(one.path),
                "bytes": one.bytes,
                "quant": manifest.source.get("quant") if manifest else None,
                "preset": manifest.preset.as_json() if manifest else None,
            }
            for one, manifest in zip(installed, map(_manifest, installed), strict=True)
        ],
        "available": [
            {
                "name": entry.name,
                "title": entry.recipe.title,
                "bytes": entry.recipe.bytes,
                "bytes_exact": entry.exact,
                "licence": entry.recipe.licence.name,
                "parameters": entry.parameters,
                "memory_bytes": entry.memory(),
                "memory_context": stated_context(entry.spec),
                "tested": entry.tested,
                "good_for": entry.good_for,
                "preset": entry.recipe.preset.as_json(),
            }
            for entry in catalogue.values()
            if entry.name not in names
        ],
    }
