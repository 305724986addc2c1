"""``edgedec draft tables``: tables of drafters, made of a model's replies."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from edgedec.cli import options as opt
from edgedec.cli import screen
from edgedec.cli.bench.inputs import steps
from edgedec.cli.command import new_command
from edgedec.cli.draft.own_files import make_index
from edgedec.cli.opening import open_model
from edgedec.cli.services import services
from edgedec.core.errors import UsageError

if TYPE_CHECKING:
    from edgedec.training.make_tables import MadeTables


@new_command(
    "tables",
    "edgedec draft tables",
    "edgedec draft tables -m qwen2.5-coder-1.5b --json",
    "edgedec draft tables -m qwen2.5-coder-1.5b --from ~/src/project ~/notes",
)
@opt.model_option
@click.option(
    "--from", "source", metavar="PATH...",
    help="Make an index of these files of your own instead: folders, files or patterns; code, notes, chats.",
)  # fmt: skip
@click.argument("more", nargs=-1, metavar="")
@opt.json_option
@click.pass_context
def command(
    ctx: click.Context, /, model: str, source: str | None, more: tuple[str, ...], as_json: bool
) -> None:
    """Make tables of what a model says most, so that its first reply is drafted too.

    They are made of the replies that `edgedec draft rollouts` kept, measured on those held out, and kept if
    they draft better than none. Every start without --history loads them, into the memory that drafters
    have anyway.

    With --from, an index of your own files is made instead: what stands there is drafted where a reply
    comes to the same words. It takes the place of the index before. In folders, files that git ignores are
    left out; so are files that are huge or no text, with a line. The index holds your text as tokens,
    stays on this machine, and only you can read it. `edgedec clean drafters` removes it.
    """
    if source is not None:
        make_index(ctx, model, (source, *more), as_json)
        return
    if more:
        raise UsageError(f"{more[0]:.80} is read by --from alone", hint="edgedec draft tables --from PATH...")
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
