"""``edgedec draft tables``: tables of drafters, made of a model's replies."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from edgedec.cli import options as opt
from edgedec.cli import screen
from edgedec.cli.bench.inputs import steps
from edgedec.cli.command import new_command
from edgedec.cli.opening import open_model
from edgedec.cli.services import services

if TYPE_CHECKING:
    from edgedec.training.make_tables import MadeTables


@new_command(
    "tables",
    "edgedec draft tables",
    "edgedec draft tables -m qwen2.5-coder-1.5b --json",
)
@opt.model_option
@opt.json_option
@click.pass_context
def command(ctx: click.Context, /, model: str, as_json: bool) -> None:
    """Make tables of what a model says most, so that its first reply is drafted too.

    They are made of the replies that `edgedec draft rollouts` kept, measured on those held out, and kept if
    they draft better than none. Every start without --history loads them, into the memory that drafters
    have anyway.
    """
    from edgedec.assemble.config import RunConfig
    from edgedec.bundle.drafter_manifest import Target
    from edgedec.training.make_tables import make_tables
    from edgedec.training.rollouts import RolloutStore, rollouts_folder

    opened = open_model(ctx, model, RunConfig(draft="off"))
    home = services(ctx).store().home
    store = RolloutStore(rollouts_folder(home, Target.of(opened.loaded.manifest)))
    with steps() as show:
        made = make_tables(opened, store, home, lambda done, total: show("measuring", done, total))
    if as_json:
        screen.show_json({"model": opened.name, "kept": made.kept, "facts": made.facts})
    else:
        _show(opened.name, made)


def _show(name: str, made: MadeTables) -> None:
    facts = made.facts
    click.echo(
        f"{facts['contexts']} contexts in {facts['replies']} replies of {name} ({facts['tokens']} tokens)"
    )
    if made.measured is None:
        click.echo("no reply is held out to measure them: with more replies one in twenty is")
    else:
        without, prepared = (one.block_efficiency for one in made.measured)
        tokens = facts["held-out tokens"]
        click.echo(
            f"tokens per round in {tokens} tokens held out: {prepared:.2f}, without tables {without:.2f}"
        )
    better = "kept: the next start drafts from them"
    click.echo(better if made.kept else "not kept: they do not draft better than none")
