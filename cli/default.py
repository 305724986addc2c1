"""``edgedec default``: show or choose the model of commands that name none."""

from __future__ import annotations

import os

import click

from edgedec.cli import options as opt
from edgedec.cli import progress
from edgedec.cli.command import new_command
from edgedec.cli.services import services


@new_command(
    "default",
    "edgedec default",
    "edgedec default qwen3-1.7b",
)
@click.argument("name", required=False, metavar="[NAME]", shell_complete=opt.complete_model)
@click.pass_context
def command(ctx: click.Context, name: str | None) -> None:
    """Print the model that commands take when none is named, or make NAME that model.

    NAME is anything that -m takes. EDGEDEC_MODEL comes before it. Nothing is pulled until a command needs it.
    """
    from edgedec.models.default_model import VARIABLE, default_model, keep_default

    store = services(ctx).store()
    if name is None:
        click.echo(default_model(store))
        return
    click.echo(keep_default(name, store))
    if (other := os.environ.get(VARIABLE, "").strip()) and other != name:
        progress.notice(f"note: {VARIABLE} is set, and comes first: {other}")
