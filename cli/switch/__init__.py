"""``edgedec switch``: one module for each subcommand, imported when it is called."""

from __future__ import annotations

import click

from edgedec.cli import options as opt
from edgedec.cli.subcommands import Subcommand, SubcommandGroup

PARTS = {
    "calibrate": Subcommand("edgedec.cli.switch.calibrate", "Find the thresholds of a pair of models."),
}
"""Subcommands by name. A new one is a module and a line here."""


@click.group(
    "switch",
    cls=SubcommandGroup,
    subcommands=PARTS,
    invoke_without_command=True,
    short_help="Prepare a pair of models that take turns.",
    epilog=opt.examples(
        "edgedec switch calibrate -m qwen2.5-coder-1.5b --switch smollm2-135m --share 0.3",
        "edgedec chat qwen2.5-coder-1.5b --switch smollm2-135m",
    ),
)
@click.pass_context
def command(ctx: click.Context) -> None:
    """Prepare a pair of models that take turns on a reply: --switch of chat and generate."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
