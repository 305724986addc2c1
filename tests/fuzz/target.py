"""What a target of the fuzzer is, and the models that several of them damage."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from edgedec.bundle.manifest import FileEntry, Manifest
from edgedec.core.rows import ALL_ROWS
from edgedec.export import export_gguf
from tests.fixtures.tiny_gguf import TinyShape, write_tiny
from tests.fixtures.tiny_hybrid import DeltaShape

Files = dict[str, bytes]
"""By path below the folder of an input; a ``Link`` is made a symbolic link."""
SHAPE = TinyShape(layers=1, hidden=32, ffn=32, heads=2, kv_heads=1, context=32)
SHAPES = {
    "gemma4": replace(SHAPE, layers=5),  # the last one shares keys
    "qwen35": replace(SHAPE, layers=2, delta=DeltaShape(k_dim=16, v_dim=16, rotary=4, period=2, nextn=1)),
    "lfm2": replace(SHAPE, layers=3),
}
"""Sizes of models that need more than one layer."""
MODELS = (
    ("llama", "q4_1"),
    ("qwen2", "q8_0"),
    ("gemma3", "q5_0"),
    ("gemma4", "q4_0"),
    ("qwen35", "q8_0"),
    ("lfm2", "q4_0"),
    ("qwen3vl", "q5_1"),
    ("mistral3", "q4_0"),
)
OUTSIDE = "../outside"
"""Beside the folder of an input: a directory with the files ``secret`` and ``weights.bin``."""


class Link(bytes):
    """The target of a symbolic link."""


@dataclass(frozen=True, slots=True)
class Target:
    """``read`` gets a folder with the damaged files, and those that a reader needs beside them.

    ``parts``: words of which every rejection has to use one, for it to say what is wrong.
    """

    name: str
    seeds: Callable[[Path], list[tuple[Files, Files]]]
    mutate: Callable[[Files, random.Random], None]
    read: Callable[[Path], None]
    parts: tuple[str, ...] = ("",)


def alone(
    name: str, mutate: Callable[[bytes, random.Random], bytes]
) -> Callable[[Files, random.Random], None]:
    """A change of one file."""

    def change(files: Files, rng: random.Random) -> None:
        files[name] = mutate(files[name], rng)

    return change


def tiny_gguf(folder: Path, architecture: str, formats: str) -> Path:
    """A model as small as the kernels allow, made once."""
    path = folder / f"{architecture}.gguf"
    if not path.exists():
        write_tiny(path, architecture, formats=formats, shape=SHAPES.get(architecture, SHAPE))
    return path


def tiny_bundle(folder: Path, architecture: str, formats: str) -> Path:
    """Its bundle, made once."""
    bundle = folder / architecture
    if not bundle.exists():
        export_gguf(tiny_gguf(folder, architecture, formats), bundle)
    return bundle


def parts_of_bundles(*damaged: str) -> Callable[[Path], list[tuple[Files, Files]]]:
    """Seeds of a target that damages these files of a bundle."""

    def seeds(folder: Path) -> list[tuple[Files, Files]]:
        out = []
        for architecture, formats in MODELS:
            bundle = tiny_bundle(folder, architecture, formats)
            files = {path.name: path.read_bytes() for path in bundle.iterdir() if path.is_file()}
            rest = {name: data for name, data in files.items() if name not in damaged}
            out.append(({name: files[name] for name in damaged}, rest))
        return out

    return seeds


def run_bundle(bundle: Path, manifest: Manifest) -> None:
    """A pass of two tokens."""
    from edgedec.backends.onnx.model import OnnxModel
    from edgedec.backends.optimum import DecoderModel
    from edgedec.core.cache_config import CacheConfig

    load = DecoderModel if manifest.kind == "optimum" else OnnxModel
    capacity = min(16, manifest.spec.context_length)
    forward = load(bundle, manifest, threads=1, spin=False).forward(CacheConfig(capacity))
    forward.extend([0, 1 % manifest.spec.vocab_size][:capacity], rows=ALL_ROWS)


def with_true_sizes(folder: Path, manifest: Manifest) -> Manifest:
    """``manifest`` with the sizes that its files have: what is tested lies behind that check."""

    def size(path: Path) -> int:
        return path.stat().st_size if path.exists() else 0

    sizes = {name: FileEntry(size(folder / name), "0" * 64) for name in manifest.files}
    return replace(manifest, files=sizes)
