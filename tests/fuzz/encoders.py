"""Encoders and rerankers, as GGUF files and as directories: what is accepted makes vectors or scores."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from edgedec.bundle.manifest import Manifest
from edgedec.embed.encoder import load_encoder
from edgedec.export import export_gguf, export_huggingface
from tests.fixtures.tiny_bert import CONFIG, write_bert
from tests.fixtures.tiny_bert_gguf import write_bert_gguf
from tests.fixtures.tiny_modern import MODERN, NOMIC, write_modern, write_modern_gguf
from tests.fuzz.target import Files

GGUF = "model.gguf"
PARTS = ("encoder", "pooling", "pools", "modules", "positions", "labels", "classes", "activation", "heads",
         "layer_types", "frequencies", "Bert", "BERT", "bert", "module", "normalizer", "vector", "prompts",
         "reranker", "config")  # fmt: skip
"""Words that name a part of an encoder."""
_RANKS = {"architectures": ["ModernBertForSequenceClassification"], "num_labels": 1}
_MODELS = {"modern": MODERN, "nomic": NOMIC, "ranks": {**MODERN, **_RANKS}}


def _directories(folder: Path) -> dict[str, Path]:
    places = {name: folder / f"encoder-{name}" for name in ("bert", *_MODELS)}
    if not places["bert"].exists():
        write_bert(places["bert"], config={**CONFIG, "num_hidden_layers": 1})
        for name, config in _MODELS.items():
            write_modern(places[name], config)
    return places


def gguf_seeds(folder: Path) -> list[tuple[Files, Files]]:
    """A file of each architecture, and one of a reranker."""
    made = []
    for name, directory in _directories(folder).items():
        write = write_bert_gguf if name == "bert" else write_modern_gguf
        path = folder / f"encoder-{name}.gguf"
        if not path.exists():
            write(directory, path, pooling=4 if name == "ranks" else 1)
        made.append(({GGUF: path.read_bytes()}, {}))
    return made


def directory_seeds(folder: Path) -> list[tuple[Files, Files]]:
    """A directory of each architecture, and one of a reranker."""
    return [
        (
            {
                str(path.relative_to(directory)): path.read_bytes()
                for path in sorted(directory.rglob("*"))
                if path.is_file()
            },
            {},
        )
        for directory in _directories(folder).values()
    ]


def read_gguf(folder: Path) -> None:
    """Export the file, and use what came of it."""
    _use(folder, folder / GGUF, export_gguf)


def read_directory(folder: Path) -> None:
    """Export the directory, and use what came of it."""
    _use(folder, folder, export_huggingface)


def _use(folder: Path, source: Path, export: Callable[[Path, Path], Manifest]) -> None:
    out = folder / "out"
    try:
        export(source, out)
        encoder = load_encoder(out, threads=1)
        if encoder.facts.ranks:
            encoder.rank("the", ["cat", "the sky " * 40])
        else:
            encoder.embed(["the cat", "sky " * 90])
    finally:
        shutil.rmtree(out, ignore_errors=True)
