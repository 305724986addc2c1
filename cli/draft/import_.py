"""``edgedec draft import``: install a drafter that others made for a model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgedec.cli import options as opt
from edgedec.cli import screen
from edgedec.cli.bench.inputs import find_bundle
from edgedec.cli.command import new_command
from edgedec.cli.progress import notice, reporter
from edgedec.cli.services import services
from edgedec.core.units import size
from edgedec.disk.home import ARTIFACTS

if TYPE_CHECKING:
    from edgedec.bundle.drafter_manifest import DrafterManifest
    from edgedec.disk.listed_files import Scalar


@new_command(
    "import",
    "edgedec draft import AngelSlim/Qwen3-1.7B_eagle3 -m qwen3-1.7b",
    "edgedec draft import ./my-head -m ./my-model",
    "edgedec draft import mtp-Qwen3.5-0.8B-Q8_0.gguf -m qwen3.5-0.8b",
    "edgedec draft import head.gguf -m qwen3-4b --json",
)
@click.argument("head", metavar="HEAD")
@opt.model_option
@opt.json_option
@click.pass_context
def command(ctx: click.Context, head: str, model: str, as_json: bool) -> None:
    """Install an EAGLE-3 head, an assistant or an MTP layer, which then drafts for the model unnamed.

    HEAD is one of these:

    \b
    - a folder with config.json and safetensors or pytorch_model.bin, as SpecForge, AngelSlim and speculators
      write them
    - an assistant of Gemma 4 (gemma4_assistant), in safetensors
    - a GGUF file of llama.cpp's architectures eagle3 and gemma4-assistant
    - a GGUF file with the MTP layer of the model (nextn): mtp-*.gguf, or a whole model that has one
    - an adapter of `edgedec draft train --from MODEL`, which is merged once with the model that it changes
    - OWNER/REPO of the model hub (huggingface.co) with either, but for adapters

    The model writes some text, and the drafter has to agree with enough of it: one for another model, or one
    that reads other layers, is refused, and the drafter that was there before stays. Replies do not change.
    Ctrl-C stops a download, and the same command goes on.
    """
    from edgedec.export.adapter import is_adapter

    if is_adapter(Path(head)):
        _merge(ctx, Path(head), as_json)
        return
    bundle, home = find_bundle(ctx, model), services(ctx).store().home
    made = fetch_head(head, bundle, home)
    name, facts = made.target.name, dict(made.facts)
    place = home / ARTIFACTS / made.target.short_hash / made.kind
    if as_json:
        screen.show_json({"model": name, "folder": str(place), "bytes": made.total_bytes, "facts": facts})
    else:
        click.echo(f"{size(made.total_bytes)} in {place}: {agreed(made)}, and drafts for {name} from now on")


def _merge(ctx: click.Context, file: Path, as_json: bool) -> None:
    """Install the model that an adapter makes of another one."""
    from edgedec.export.adapter import WeightAdapter
    from edgedec.models.adapters import install_adapter

    about = WeightAdapter.load(file).about
    with reporter() as progress:
        folder = install_adapter(file, services(ctx).store().home, progress=progress)
    if as_json:
        screen.show_json({"model": about.name, "folder": str(folder), "facts": about.facts})
    else:
        click.echo(f"{about.name} in {folder}; draft with it: --draft {about.name} with {about.target}")


def fetch_head(reference: str, bundle: Path, home: Path) -> DrafterManifest:
    """Fetch a head and install it for the model in ``bundle``. Raises as ``import_head`` does."""
    from edgedec.export.drafters.install import install_drafter
    from edgedec.models.heads import import_head

    with reporter() as progress:

        def install(path: Path, facts: Mapping[str, Scalar]) -> DrafterManifest:
            return install_drafter(path, bundle, home, facts=facts, progress=progress)

        return import_head(reference, home, install, notice=notice, progress=progress)


def agreed(made: DrafterManifest) -> str:
    """Return how often an installed head agrees with its target, as words."""
    facts = made.facts
    return f"it agrees with {facts['agreement']:.0%} of {facts['tokens it was measured on']} tokens"
