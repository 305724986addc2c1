"""``edgedec draft export``: write a model's drafting head as a GGUF file for llama.cpp."""

from __future__ import annotations

from pathlib import Path

import click

from edgedec.cli import options as opt
from edgedec.cli import screen
from edgedec.cli.bench.inputs import find_bundle
from edgedec.cli.draft.gguf_source import gguf_of
from edgedec.cli.services import services
from edgedec.core.errors import NotFoundError, UsageError
from edgedec.core.units import size


@click.command(
    "export",
    short_help="Write a drafting head as a GGUF file for llama.cpp.",
    epilog=opt.examples(
        "edgedec pull smollm2-135m --keep-source",
        "edgedec draft export -m smollm2-135m -o smollm2-head.gguf",
        "edgedec draft export -m smollm2-135m --from SmolLM2-135M.gguf -o head.gguf --json",
    ),
)
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
def command(ctx: click.Context, model: str, source: str | None, output: Path, as_json: bool) -> None:
    """Write the drafting head that belongs to a model as a GGUF file of llama.cpp's architecture eagle3.

    Its matrices keep their formats. The file has no embedding table: llama.cpp takes that of the model.
    Small models need no export, because `edgedec draft train --kind small` writes a GGUF file.
    """
    from edgedec.core.drafter_manifest import HEAD, Target
    from edgedec.core.manifest import Manifest
    from edgedec.drafters.artifacts import artifact
    from edgedec.export.draft_head.gguf import write_head_gguf
    from edgedec.export.draft_head.installed import read_head

    if output.exists():
        raise UsageError(f"{output} exists", hint="name a new file")
    bundle, home = find_bundle(ctx, model), services(ctx).store().home
    manifest = Manifest.load(bundle)
    folder = artifact(manifest, HEAD, home, bundle)
    if folder is None:
        raise NotFoundError(
            f"no drafting head belongs to {manifest.name}", hint=f"`edgedec draft train -m {model}` makes one"
        )
    head = read_head(folder, Target.of(manifest))
    write_head_gguf(output, head, gguf_of(home, source or model), name=f"{manifest.name} head")
    nbytes = output.stat().st_size
    if as_json:
        screen.show_json({"model": manifest.name, "head": str(folder), "gguf": str(output), "bytes": nbytes})
    else:
        click.echo(f"{size(nbytes)} in {output}")
