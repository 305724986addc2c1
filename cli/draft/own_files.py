"""``edgedec draft tables --from``: an index of a user's own files, from which a model drafts."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgedec.cli import screen
from edgedec.cli.bench.inputs import find_model, steps
from edgedec.cli.services import services
from edgedec.core.errors import NotFoundError
from edgedec.core.units import size

if TYPE_CHECKING:
    from edgedec.bundle.manifest import Manifest
    from edgedec.disk.listed_files import Scalar

MOST_TOKENS = 1 << 23
"""Tokens of an index: 64 MiB of the disk, and of memory while a model drafts from all of it."""
_TOO_MANY = f"beyond the {MOST_TOKENS:,} tokens that an index has"


def make_index(ctx: click.Context, model: str, named: Sequence[str], as_json: bool) -> None:
    """Make the index of the files ``named`` for a model, and report it. Raises NotFoundError without text."""
    from edgedec.core.version import __version__
    from edgedec.drafters.own_files import write_index

    bundle, manifest = find_model(ctx, model)
    texts, read, skipped = _tokens(bundle, manifest, named)
    if not read:
        why = "; ".join(_lines(skipped)) or "git ignores all that lies there, or there is no file"
        raise NotFoundError(f"nothing to read in {', '.join(named):.200}: {why}", hint="name other files")
    facts: dict[str, Scalar] = {
        "made with": f"EdgeDec {__version__}",
        "made of": ", ".join(str(Path(name).absolute()) for name in named),
        "files": read,
        "files left out": sum(map(len, skipped.values())),
        "tokens": (count := sum(map(len, texts))),
    }
    write_index(manifest, services(ctx).store().home, texts, facts)
    if as_json:
        left_out = {why: [str(path) for path in paths] for why, paths in skipped.items()}
        screen.show_json({"model": manifest.name, "kept": True, "facts": facts, "left_out": left_out})
        return
    for line in _lines(skipped):
        click.echo(line)
    click.echo(f"{read} files, {count:,} tokens, {size(8 * (count + len(texts)))}, readable by you alone")
    click.echo(f"kept: {manifest.name} drafts from them from the next start on; repeat it as they change")


def _tokens(
    bundle: Path, manifest: Manifest, named: Sequence[str]
) -> tuple[list[array[int]], int, dict[str, list[Path]]]:
    """Return the tokens of all texts, the number of files with some, and those without by the reason why."""
    from edgedec.text.tokenizer import Tokenizer
    from edgedec.training.own_files import own_texts

    tokenizer = Tokenizer.load(bundle, manifest.tokenizer)
    texts: list[array[int]] = []
    skipped: dict[str, list[Path]] = {}
    found, read, room = [*own_texts(named)], 0, MOST_TOKENS
    with steps() as show:
        for done, file in enumerate(found, 1):
            show("reading", done, len(found))
            ids = [array("i", tokenizer.encode_inside(text)) for text in file.texts]
            count = sum(map(len, ids)) + len(ids)
            why_not = file.why_not or (_TOO_MANY if count > room else "")
            if why_not:
                skipped.setdefault(why_not, []).append(file.path)
            else:
                texts += ids
                read, room = read + 1, room - count
    return texts, read, skipped


def _lines(skipped: dict[str, list[Path]]) -> list[str]:
    """Return a line for each reason why files are left out, with one of them."""
    return [
        f"left out: {len(paths)} {why}, {'such as ' if len(paths) > 1 else ''}{paths[0]!s:.120}"
        for why, paths in skipped.items()
    ]
