"""``edgedec draft``: one module for each command that makes a drafter, imported when it is called."""

from __future__ import annotations

import click

from edgedec.cli import options as opt
from edgedec.cli.subcommands import Subcommand, SubcommandGroup

MAKERS = {
    "rollouts": Subcommand("edgedec.cli.draft.rollouts", "Let a model answer prompts, and keep its replies."),
    "tables": Subcommand("edgedec.cli.draft.tables", "Make tables, so that the first reply is drafted too."),
    "trim": Subcommand("edgedec.cli.draft.trim", "Choose the ids that a head computes when it drafts."),
    "train": Subcommand("edgedec.cli.draft.train", "Train a head or an adapter that drafts for a model."),
    "import": Subcommand("edgedec.cli.draft.import_", "Install a drafter that others made."),
    "export": Subcommand("edgedec.cli.draft.export", "Write a drafter as a GGUF file for llama.cpp."),
    "list": Subcommand("edgedec.cli.draft.list", "Show the drafters that belong to models."),
}
"""Subcommands by name. A new one is a module and a line here."""


@click.group(
    "draft",
    cls=SubcommandGroup,
    subcommands=MAKERS,
    invoke_without_command=True,
    short_help="Make drafters for a model out of its own replies.",
    epilog=opt.examples(
        "edgedec draft rollouts -m qwen2.5-coder-1.5b --prompts prompts.jsonl --greedy",
        "edgedec draft trim -m qwen2.5-coder-1.5b",
        "edgedec draft tables -m qwen2.5-coder-1.5b",
        "edgedec draft train -m qwen2.5-coder-1.5b --minutes 60",
        "edgedec draft import AngelSlim/Qwen3-1.7B_eagle3 -m qwen3-1.7b",
        "edgedec draft list",
    ),
)
@click.pass_context
def command(ctx: click.Context) -> None:
    """Make drafters for a model out of its own replies.

    A drafter that is made belongs to that one model. It is used from the next start on, without being named.
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
