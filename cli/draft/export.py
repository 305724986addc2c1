"""``edgedec draft export``: write a drafter of a model as a GGUF file for llama.cpp."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgedec.bundle.drafter_manifest import HEAD, KINDS
from edgedec.cli import options as opt
from edgedec.cli import screen
from edgedec.cli.bench.inputs import find_bundle
from edgedec.cli.command import new_command
from edgedec.cli.draft.gguf_source import gguf_of
from edgedec.cli.services import services
from edgedec.core.errors import NotFoundError, UsageError
from edgedec.core.units import size

if TYPE_CHECKING:
    from edgedec.bundle.manifest import Manifest

_FORMS = {name: kind.llama_cpp for name, kind in KINDS.items() if kind.llama_cpp}
_HELP = f"""Write a drafter that belongs to a model as a GGUF file, which llama.cpp loads beside the model.

KIND is needed where a model has several:

\b
{chr(10).join(f"- {name}: {form}" for name, form in _FORMS.items())}

Its matrices keep their formats.
"""


@new_command(
    "export",
    "edgedec pull smollm2-135m --keep-source",
    "edgedec draft export -m smollm2-135m -o smollm2-head.gguf",
    "edgedec draft export mtp -m qwen3.5-0.8b -o mtp-qwen3.5.gguf",
    "edgedec draft export -m smollm2-135m --from SmolLM2-135M.gguf -o head.gguf --json",
    help=_HELP,
)
@click.argument("kind", required=False, type=click.Choice([*_FORMS]))
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
    from edgedec.bundle.manifest import Manifest
    from edgedec.export.drafters.gguf import write_drafter_gguf

    if output.exists():
        raise UsageError(f"{output} exists", hint="name a new file")
    bundle, home = find_bundle(ctx, model), services(ctx).store().home
    manifest = Manifest.load(bundle)
    chosen, folder = _drafter(manifest, kind, home, bundle, model)
    own = gguf_of(home, source or model)
    write_drafter_gguf(output, folder, manifest, own, name=f"{manifest.name} {chosen}")
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

    here = [one.kind for one in artifacts(Target.of(manifest), home, bundle) if one.kind in _FORMS]
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
