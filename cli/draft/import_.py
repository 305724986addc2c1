"""``edgedec draft import``: install a drafting head that others trained for a model."""

from __future__ import annotations

import click

from edgedec.cli import options as opt
from edgedec.cli import screen
from edgedec.cli.bench.inputs import find_bundle
from edgedec.cli.progress import notice, reporter
from edgedec.cli.services import services
from edgedec.core.units import size


@click.command(
    "import",
    short_help="Install a drafting head that others trained for a model.",
    epilog=opt.examples(
        "edgedec draft import AngelSlim/Qwen3-1.7B_eagle3 -m qwen3-1.7b",
        "edgedec draft import ./my-head -m ./my-model",
        "edgedec draft import head.gguf -m qwen3-4b --json",
    ),
)
@click.argument("head", metavar="HEAD")
@opt.model_option
@opt.json_option
@click.pass_context
def command(ctx: click.Context, head: str, model: str, as_json: bool) -> None:
    """Install an EAGLE-3 head that others trained for a model. It drafts from the next start on.

    HEAD is one of these:

    \b
    - a folder with config.json and safetensors or pytorch_model.bin, as SpecForge, AngelSlim and speculators
      write them
    - a GGUF file of llama.cpp's architecture eagle3
    - OWNER/REPO of the model hub (huggingface.co) with either

    The model writes some text, and the head has to agree with enough of it: a head for another model, or one
    that reads other layers, is refused, and the head that was there before stays. Replies do not change.
    Ctrl-C stops a download, and the same command goes on.
    """
    from edgedec.core.drafter_manifest import Target
    from edgedec.core.home import ARTIFACTS
    from edgedec.core.manifest import Manifest
    from edgedec.models.heads import import_head

    bundle, home = find_bundle(ctx, model), services(ctx).store().home
    with reporter() as progress:
        made = import_head(head, bundle, home, notice=notice, progress=progress)
    name, facts = Manifest.load(bundle).name, dict(made.facts)
    place = home / ARTIFACTS / Target.of(Manifest.load(bundle)).short_hash / made.kind
    if as_json:
        screen.show_json({"model": name, "folder": str(place), "bytes": made.total_bytes, "facts": facts})
        return
    agrees = f"it agrees with {facts['agreement']:.0%} of {facts['tokens it was measured on']} tokens"
    click.echo(f"{size(made.total_bytes)} in {place}: {agrees}, and drafts for {name} from now on")
