"""``edgedec bench embed``: texts a second and memory of an encoder, beside other runtimes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgedec.cli import screen
from edgedec.cli.bench import inputs
from edgedec.cli.bench.options import StudyOptions, last_options
from edgedec.cli.command import new_command
from edgedec.core.errors import NotFoundError, UsageError

if TYPE_CHECKING:
    from edgedec.bench.studies.vectors import SideVectors

_NEEDS = {"onnxruntime": ("model.onnx", "tokenizer.json"), "llama.cpp": ()}
"""Files in the folder of a runtime; () for a file alone."""


@new_command(
    "embed",
    "edgedec bench embed all-minilm-l6-v2",
    "edgedec bench embed all-minilm-l6-v2 onnxruntime=onnx/ llama.cpp=minilm.gguf --json",
)
@click.argument("model", metavar="MODEL")
@click.argument("peers", nargs=-1, metavar="[RUNTIME=PLACE]...")
@last_options
@click.pass_context
def command(
    ctx: click.Context, /, model: str, peers: tuple[str, ...], threads: int | None, as_json: bool
) -> None:
    """Make vectors of 200 texts of 5 to 80 words, in turns with other runtimes.

    MODEL is a name that makes vectors, owner/repo of the model hub, or a path. A runtime is onnxruntime, with
    a folder that has model.onnx and tokenizer.json, or llama.cpp, with a GGUF file: each of the same model.

    Each side is a process of its own, and makes all vectors once before the five turns that count. Ratios are
    to EdgeDec in the same turn. The cosine is the least of a text's vector with EdgeDec's. ONNX Runtime runs
    by the recipe of fastembed, which pads a batch of 256 texts to its longest.
    """
    from edgedec.bench.studies.vectors import drawn_texts, encoder_sides, measure_vectors

    places = _places(peers)
    options = StudyOptions(model=model, threads=threads, as_json=as_json)
    bundle, manifest = inputs.find_model(ctx, model)
    sides, texts = encoder_sides(bundle, manifest, options.chosen_threads, places), drawn_texts()
    with inputs.steps() as progress:
        found = measure_vectors(sides, texts, progress)
    if as_json:
        facts = {"model": manifest.name, "threads": options.chosen_threads, "texts": len(texts)}
        screen.show_json({**facts, "sides": {name: one.as_json() for name, one in found.items()}})
    else:
        _show(found, f"{manifest.name}, {options.chosen_threads} threads: {len(texts)} texts")


def _places(given: Sequence[str]) -> dict[str, Path]:
    """Return the model of each runtime. Raises UsageError for an unknown one, NotFoundError for no model."""
    found: dict[str, Path] = {}
    for one in given:
        name, _, place = one.partition("=")
        if name not in _NEEDS or not place:
            known = " or ".join(f"{known}=PLACE" for known in _NEEDS)
            raise UsageError(f"{one!r} is no runtime with a model", hint=f"as in {known}")
        if name in found:
            raise UsageError(f"{name} is named twice")
        path = found[name] = Path(place)
        if missing := [file for file in _files(name, path) if not file.is_file()]:
            raise NotFoundError(f"no such file: {missing[0]}")
    return found


def _files(name: str, path: Path) -> list[Path]:
    return [path / file for file in _NEEDS[name]] or [path]


def _show(found: Mapping[str, SideVectors], title: str) -> None:
    from edgedec.bench.harness.runtimes import EDGEDEC
    from edgedec.cli.bench.tables import megabytes, new_table, number, quartiles, wide_console

    table = new_table(("", "texts/s", f"x {EDGEDEC}", "peak memory", "least cosine"))
    for name, one in found.items():
        cells = quartiles(one.texts_per_s, 0), quartiles(one.ratio), megabytes(one.peak_rss_bytes)
        table.add_row(name, *cells, number(one.least_cosine, 7))
    console = wide_console()
    console.print(title, soft_wrap=True)
    console.print(table)
    for name, one in found.items():
        console.print(f"{name}: {one.version}", soft_wrap=True)
