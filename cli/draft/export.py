"""``edgedec draft export``: write a drafter of a model as a GGUF file for llama.cpp."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgedec.bundle.drafter_manifest import ASSISTANT, HEAD, MTP
from edgedec.cli import options as opt
from edgedec.cli import screen
from edgedec.cli.bench.inputs import find_bundle
from edgedec.cli.draft.gguf_source import gguf_of
from edgedec.cli.services import services
from edgedec.core.errors import NotFoundError, UsageError
from edgedec.core.units import size

if TYPE_CHECKING:
    from edgedec.bundle.manifest import Manifest

KINDS = (HEAD, MTP, ASSISTANT)


@click.command(
    "export",
    short_help="Write a drafter as a GGUF file for llama.cpp.",
    epilog=opt.examples(
        "edgedec pull smollm2-135m --keep-source",
        "edgedec draft export -m smollm2-135m -o smollm2-head.gguf",
        "edgedec draft export mtp -m qwen3.5-0.8b -o mtp-qwen3.5.gguf",
        "edgedec draft export -m smollm2-135m --from SmolLM2-135M.gguf -o head.gguf --json",
    ),
)
@click.argument("kind", required=False, type=click.Choice(KINDS))
@opt.model_option
@click.option(
    "--from", "source", metavar="GGUF",
    help="The model's own GGUF file, which has its tokens (default: the one kept when it was pulled).",
)  # fmt: skip
@click.option(
    "-o", "--output", required=True, type=click.Path(path_type=Path), metavar="FILE",
    help="The file to write; it must be new.",
)  # fmt: skip
@opt.json_option
@click.pass_context
def command(
    ctx: click.Context, kind: str | None, model: str, source: str | None, output: Path, as_json: bool
) -> None:
    """Write a drafter that belongs to a model as a GGUF file, which llama.cpp loads beside the model.

    KIND is needed where a model has several:

    \b
    - head: a drafting head, as architecture eagle3. It has no embedding table: llama.cpp takes the model's
    - mtp: the model's own layer for further tokens, as an mtp-*.gguf file with the model's tables
    - assistant: an assistant of Gemma 4, as architecture gemma4-assistant, without clusters of its vocabulary

    Its matrices keep their formats.
    """
    from edgedec.bundle.manifest import Manifest

    if output.exists():
        raise UsageError(f"{output} exists", hint="name a new file")
    bundle, home = find_bundle(ctx, model), services(ctx).store().home
    manifest = Manifest.load(bundle)
    chosen, folder = _drafter(manifest, kind, home, bundle, model)
    _write(chosen, output, folder, manifest, gguf_of(home, source or model))
    nbytes = output.stat().st_size
    if as_json:
        facts = {"model": manifest.name, "kind": chosen, "folder": str(folder), "gguf": str(output)}
        screen.show_json({**facts, "bytes": nbytes})
    else:
        click.echo(f"{size(nbytes)} in {output}: the {chosen} of {manifest.name}")


def _drafter(manifest: Manifest, kind: str | None, home: Path, bundle: Path, model: str) -> tuple[str, Path]:
    """Return the kind and the folder of the drafter to write. Raises NotFoundError or UsageError."""
    from edgedec.bundle.drafter_manifest import Target
    from edgedec.drafters.artifacts import artifact, artifacts

    here = [one.kind for one in artifacts(Target.of(manifest), home, bundle) if one.kind in KINDS]
    if kind is None and len(here) > 1:
        raise UsageError(f"{manifest.name} has several drafters", hint=f"name one: {', '.join(here)}")
    chosen = kind or next(iter(here), HEAD)
    folder = artifact(manifest, chosen, home, bundle)
    if folder is None:
        lacks = "drafting head belongs to" if chosen == HEAD else f"{chosen} belongs to"
        hint = (
            f"`edgedec draft train -m {model}` makes one"
            if chosen == HEAD
            else "import one, or export a head"
        )
        raise NotFoundError(f"no {lacks} {manifest.name}", hint=hint)
    return chosen, folder


def _write(kind: str, output: Path, folder: Path, manifest: Manifest, source: Path) -> None:
    from edgedec.bundle.drafter_manifest import Target
    from edgedec.export.assistant.gguf import write_assistant_gguf
    from edgedec.export.draft_head.gguf import write_head_gguf
    from edgedec.export.draft_head.installed import read_head
    from edgedec.export.mtp.gguf import write_mtp_gguf

    name = f"{manifest.name} {kind}"
    if kind == HEAD:
        write_head_gguf(output, read_head(folder, Target.of(manifest)), source, name=name)
    elif kind == MTP:
        write_mtp_gguf(output, folder, manifest, source, name=name)
    else:
        write_assistant_gguf(output, folder, manifest, source, name=name)
