"""``edgedec pull``: fetch a model and prepare it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgedec.cli import options as opt
from edgedec.cli import progress, screen
from edgedec.cli.command import new_command, option
from edgedec.cli.services import services
from edgedec.cli.with_drafter import with_drafter
from edgedec.core.errors import NotFoundError, UsageError
from edgedec.core.units import size

if TYPE_CHECKING:
    from edgedec.models import Store


@new_command(
    "pull",
    "edgedec pull smollm2-135m",
    "edgedec pull qwen2.5-coder-1.5b --force",
    "edgedec pull gemma3-270m --file ~/Downloads/gemma-3-270m-q4_k_m.gguf",
    "edgedec pull Qwen/Qwen2.5-0.5B-Instruct-GGUF",
    "edgedec pull Qwen/Qwen2.5-0.5B-Instruct-GGUF:Q8_0",
    "edgedec pull hf:Qwen/Qwen2.5-0.5B-Instruct-GGUF/qwen2.5-0.5b-instruct-q8_0.gguf",
)
@click.argument("name", metavar="NAME")
@click.option("--force", is_flag=True, help="Fetch and prepare it again even if it is installed.")
@click.option("--file", "source", type=click.Path(path_type=Path), metavar="GGUF",
              help="Use this local file, download nothing; a known model's hash is checked.")  # fmt: skip
@click.option("--no-drafter", is_flag=True, help="Leave out the drafter that comes with it.")
@option("--keep-source", is_flag=True, rare=True, help="Keep the downloaded GGUF too.")
@opt.json_option
@click.pass_context
def command(
    ctx: click.Context,
    name: str,
    force: bool,
    source: Path | None,
    no_drafter: bool,
    keep_source: bool,
    as_json: bool,
) -> None:
    """Fetch a model, check it, and turn it into a bundle in the store.

    NAME is one of these:

    \b
    - a name that `edgedec list --all` shows
    - OWNER/REPO of the model hub (huggingface.co): its Q4_K_M file, or else its nearest to that
    - OWNER/REPO:QUANT, such as Q8_0; hf:OWNER/REPO/FILE.gguf; hf.co/OWNER/REPO; an address there
    - the path of a GGUF file
    - the path of a Hugging Face directory; it gets 8-bit weights (`edgedec export` offers others)

    A path that exists comes before OWNER/REPO. HF_TOKEN opens gated repositories, HF_ENDPOINT names a mirror.

    The next pull continues an interrupted one. An installed model stays usable until its replacement is
    complete. A drafter that is known to suit a model comes with it, and a line names its size.
    """
    from edgedec.export.drafters.check import checked_drafters

    store = services(ctx).store()
    if source is not None:
        if keep_source:
            raise UsageError("--keep-source is for downloads, and --file makes none", hint="leave one out")
        if not source.is_file():
            raise NotFoundError(f"no such file: {source}", hint="--file names a GGUF file")
    before = {model.name for model in store.list()}
    with progress.reporter() as report:
        path = store.pull(name, force=force, source=source, keep_source=keep_source, progress=report)
        refused = checked_drafters(path, report)
    for line in refused:
        progress.notice(line)
    if source is not None and not force and path.name in before:
        progress.notice(f"note: {path.name} was installed already; --force prepares it from {source}")
    fetched = None
    if source is not None:
        _say_missing(path, store)
    elif not no_drafter:
        with progress.reporter() as report:
            fetched = with_drafter(path, store, report, "--no-drafter")
    total = sum(file.stat().st_size for file in path.iterdir())
    if as_json:
        found = {"name": path.name, "path": str(path), "bytes": total}
        screen.show_json(found | ({"drafter": fetched} if fetched else {}))
    else:
        click.echo(f"{path.name} is ready ({size(total)})")


def _say_missing(path: Path, store: Store) -> None:
    """Name the draft model that comes with a model where nothing may be downloaded."""
    from edgedec.models.pairs import missing_drafter

    if drafter := missing_drafter(path, store):
        more = f"`edgedec pull {drafter.name}` ({size(drafter.recipe.bytes)})"
        progress.notice(f"note: {path.name} replies faster with a draft model beside it: {more}")
