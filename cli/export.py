"""``edgedec export``: a GGUF file becomes a bundle in a directory of the user's choice."""

from __future__ import annotations

from pathlib import Path

import click

from edgedec.cli import options as opt
from edgedec.cli import progress, screen
from edgedec.cli.seams import seams
from edgedec.core.errors import NotFoundError, UsageError
from edgedec.core.units import size


@click.command(
    "export",
    short_help="Turn a GGUF file into an EdgeDec bundle.",
    epilog=opt.examples(
        "edgedec export model.gguf -o my-model",
        'edgedec generate -m ./my-model -p "Hello"',
    ),
)
@click.argument("source", type=click.Path(path_type=Path), metavar="SOURCE")
@click.option("-o", "--output", "out", required=True, type=click.Path(path_type=Path), metavar="DIR",
              help="Where the bundle goes; a bundle that is there already is replaced.")  # fmt: skip
@click.option("--name", metavar="NAME", help="The model's name (default: the one in the file).")
@opt.json_option
@click.pass_context
def command(ctx: click.Context, source: Path, out: Path, name: str | None, as_json: bool) -> None:
    """Turn a GGUF file into a bundle: an ONNX graph, packed weights, tokenizer, template and manifest.

    The weights keep their integers and scales exactly. Architectures: llama, qwen2, qwen3, gemma3.
    An interrupted export leaves DIR as it was.
    """
    if not source.is_file():
        raise NotFoundError(f"no such file: {source}", hint="SOURCE is a .gguf file")
    if out.exists() and not _replaceable(out):
        raise UsageError(f"{out} exists and is not a bundle", hint="choose a new or an empty directory")
    with progress.reporter() as report:
        manifest = seams(ctx).export(source, out, name=name, progress=report)
    total = sum(file.stat().st_size for file in out.iterdir())
    if as_json:
        document = {
            "name": manifest.name,
            "architecture": manifest.spec.architecture,
            "path": str(out),
            "bytes": total,
            "source_bytes": source.stat().st_size,
            "files": {name: file.bytes for name, file in manifest.files.items()},
        }
        screen.show_json(document)
    else:
        ratio = total / source.stat().st_size
        click.echo(f"{manifest.name}: {size(total)} in {out}, {ratio:.3f} times the GGUF")


def _replaceable(out: Path) -> bool:
    return out.is_dir() and ((out / "manifest.json").is_file() or not any(out.iterdir()))
