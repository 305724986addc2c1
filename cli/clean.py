"""``edgedec clean``: show and remove files that are kept beside the models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from edgedec.cli import errors, screen
from edgedec.cli import options as opt
from edgedec.cli.command import new_command, option
from edgedec.cli.remedies import hint_of
from edgedec.cli.services import services
from edgedec.core.errors import StorageError
from edgedec.core.units import size
from edgedec.models.home_files import KINDS, entries

if TYPE_CHECKING:
    from edgedec.models.home_files import HomeEntry

IN_USE = 1
ALL = "all"
_HELP = f"""Show the files that EdgeDec keeps beside the models, and remove those of the kinds named.

Without a KIND nothing is removed. Models are never removed here: `edgedec rm NAME` does that. Saved
conversations lie where you put them, and no list of them is kept. The same is true of exports: one that was
killed leaves OUT.partial-* beside its OUT, which the next export to the same OUT removes.

\b
{chr(10).join(f"- {kind.name}: {kind.about}" for kind in KINDS.values())}
- all: all of these

Files that a running process holds stay, and the exit status is 1 then. EdgeDec makes again what it needs.
"""


@new_command(
    "clean",
    "edgedec clean",
    "edgedec clean history",
    "edgedec clean downloads costs --dry-run",
    "edgedec clean all --json | jq .removed_bytes",
    help=_HELP,
)
@click.argument("kinds", nargs=-1, type=click.Choice([*KINDS, ALL]), metavar="[KIND]...")
@option("-n", "--dry-run", is_flag=True, help="Only list the files that would be removed.")
@opt.json_option
@click.pass_context
def command(ctx: click.Context, /, kinds: tuple[str, ...], dry_run: bool, as_json: bool) -> None:
    home = services(ctx).store().home
    chosen = set(KINDS) if ALL in kinds else set(kinds)
    found = entries(home)
    removed, failed = _removed([one for one in found if one.kind in chosen and not dry_run], ctx)
    if as_json:
        screen.show_json(_document(ctx, found, removed, failed))
    elif not chosen:
        _summarise(ctx, found)
    elif dry_run:
        for one in (one for one in found if one.kind in chosen):
            click.echo(_line(one))
        if not any(one.kind in chosen for one in found):
            click.echo("nothing to remove")
    else:
        _tell(removed, failed)
    if failed:
        ctx.exit(max(failed.values()))


def _removed(chosen: Sequence[HomeEntry], ctx: click.Context) -> tuple[list[HomeEntry], dict[HomeEntry, int]]:
    """Remove entries. Returns those that are gone, and the exit status for each of the others."""
    from edgedec.models.home_files import remove

    home = services(ctx).store().home
    gone: list[HomeEntry] = []
    failed: dict[HomeEntry, int] = {}
    for one in chosen:
        try:
            if remove(one, home):
                gone.append(one)
            else:
                errors.show(f"{one.path} stays: a running process holds it", "end that first")
                failed[one] = IN_USE
        except StorageError as error:
            errors.show(error.message, hint_of(error))
            failed[one] = error.exit_code
    return gone, failed


def _summarise(ctx: click.Context, found: Sequence[HomeEntry]) -> None:
    home = services(ctx).store().home
    if not found:
        click.echo(f"Nothing is kept in {home} beside the models.")
        return
    click.echo(f"Kept in {home} beside the models:")
    for label, text in rows(summary(found)):
        click.echo(f"  {label:<10} {text}")
    click.echo("Nothing was removed: name kinds, as in `edgedec clean downloads`, or all.")


def _tell(removed: Sequence[HomeEntry], failed: dict[HomeEntry, int]) -> None:
    for kind in summary(removed):
        click.echo(f"removed {kind['kind']}: {size(kind['bytes'])}")
    if not removed and not failed:
        click.echo("nothing to remove")


def _document(
    ctx: click.Context, found: Sequence[HomeEntry], removed: Sequence[HomeEntry], failed: dict[HomeEntry, int]
) -> dict[str, object]:
    return {
        "home": str(services(ctx).store().home),
        "kinds": summary(found),
        "entries": [
            {
                "kind": one.kind,
                "path": str(one.path),
                "bytes": one.bytes,
                "in_use": failed.get(one) == IN_USE or (one not in removed and one.in_use),
                "removed": one in removed,
            }
            for one in found
        ],
        "removed_bytes": sum(one.bytes for one in removed),
    }


def _line(entry: HomeEntry) -> str:
    if entry.in_use:
        return f"would leave {entry.path} ({size(entry.bytes)}): a running process holds it"
    return f"would remove {entry.path} ({size(entry.bytes)})"


def summary(found: Sequence[HomeEntry]) -> list[dict[str, Any]]:
    """Return name, bytes and number of files of each kind in ``found``, and whether they hold text."""
    kinds = []
    for kind in KINDS.values():
        sizes = [one.bytes for one in found if one.kind == kind.name]
        if sizes:
            about = {"about": kind.about, "text": kind.text}
            kinds.append({"kind": kind.name, "bytes": sum(sizes), "entries": len(sizes), **about})
    return kinds


def rows(kinds: Sequence[dict[str, Any]]) -> list[tuple[str, str]]:
    """Return name and description of each kind in a ``summary``, for people."""
    text = {True: "; text of prompts and replies", False: ""}
    return [(one["kind"], f"{size(one['bytes'])}: {one['about']}{text[one['text']]}") for one in kinds]
