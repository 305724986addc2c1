"""``edgedec rm``: remove models from the store."""

from __future__ import annotations

import click

from edgedec.cli.command import new_command
from edgedec.cli.services import services


@new_command(
    "rm",
    "edgedec rm gemma3-270m",
    "edgedec rm smollm2-135m qwen2.5-coder-1.5b",
)
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@click.pass_context
def command(ctx: click.Context, names: tuple[str, ...]) -> None:
    """Remove installed models, with their unfinished downloads and kept sources.

    Nothing is removed if one of the names is unknown. `edgedec clean` removes everything else that is kept.
    """
    services(ctx).store().remove(*names, removed=lambda name: click.echo(f"removed {name}"))
