"""Drafters of a model's makers in GGUF files of their own: an MTP layer, and assistants."""

from __future__ import annotations

import random
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from edgedec.bundle.drafter_manifest import MTP
from edgedec.bundle.manifest import MANIFEST, Manifest
from edgedec.core.cache_config import CacheConfig
from edgedec.export.drafters.gguf import write_drafter_gguf
from edgedec.export.drafters.install import convert_drafter
from tests.fixtures.assistants import CLUSTERS, random_assistant, shape_for, write_gguf
from tests.fuzz.mutate_gguf import mutate_gguf
from tests.fuzz.target import Files, tiny_bundle, tiny_gguf

LAYER, ASSISTANT = "mtp.gguf", "assistant.gguf"
_TARGET = "target"
_HIDDEN = 64
"""Width of the assistants; their target has another."""


def seeds(folder: Path) -> list[tuple[Files, Files]]:
    """An MTP layer, and assistants with and without clusters, each beside its target."""
    return [(dict(files), dict(rest)) for files, rest in _seeds(folder)]


@cache
def _seeds(folder: Path) -> tuple[tuple[Files, Files], ...]:
    bundle = tiny_bundle(folder, "qwen35", "q8_0")
    source, layer = tiny_gguf(folder, "qwen35", "q8_0"), folder / LAYER
    write_drafter_gguf(layer, bundle / "drafters" / MTP, Manifest.load(bundle), source, name="layer")
    found = [({LAYER: layer.read_bytes()}, _beside(bundle))]
    target = tiny_bundle(folder, "gemma4", "q4_0")
    for centroids in (0, CLUSTERS):
        shape = shape_for(Manifest.load(target).spec, hidden=_HIDDEN, centroids=centroids, chosen=3)
        path = write_gguf(folder / f"{centroids}.gguf", shape, random_assistant(shape))
        found.append(({ASSISTANT: path.read_bytes()}, _beside(target)))
    return tuple(found)


def _beside(bundle: Path) -> Files:
    return {f"{_TARGET}/{one.name}": one.read_bytes() for one in bundle.iterdir() if one.is_file()}


def mutate(files: Files, rng: random.Random) -> None:
    (name,) = files
    data = files[name]
    assert isinstance(data, bytes)
    files[name] = mutate_gguf(data, rng)


def read(folder: Path) -> None:
    """It becomes a drafter that makes a step, or one line says why not."""
    target = folder / _TARGET
    manifest = Manifest.from_json((target / MANIFEST).read_text(encoding="utf-8"))
    if (folder / ASSISTANT).exists():
        _assist(folder / ASSISTANT, target, folder / "out", manifest)
        return
    made = convert_drafter(folder / LAYER, target, folder / "out")
    _predict(folder / "out", target, made.facts)


def _predict(drafter: Path, target: Path, facts: Any) -> None:
    from edgedec.backends.onnx.mtp_forward import MtpModel
    from edgedec.bundle.mtp_facts import MtpFacts

    sizes = MtpFacts.of(facts)
    taps = np.ones((2, sizes.hidden), np.float32)
    MtpModel(drafter, target, sizes, threads=1).forward(8).step([1, 2], taps=taps, rows=(1,))


def _assist(path: Path, target: Path, out: Path, manifest: Manifest) -> None:
    from edgedec.backends.onnx.assistant_forward import AssistantModel
    from edgedec.backends.onnx.model import OnnxModel
    from edgedec.bundle.assistant_facts import AssistantFacts

    made = convert_drafter(path, target, out)
    forward = OnnxModel(target, manifest, threads=1, spin=False).forward(CacheConfig(16))
    forward.extend([0, 1])
    sizes = AssistantFacts.of(made.facts)
    steps = AssistantModel(out, target, sizes, threads=1).steps(forward.lent)
    steps.step(1, position=2, slots=2, tap=np.ones(sizes.target_hidden, np.float32))
