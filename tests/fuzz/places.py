"""Bundles whose weights are said to lie where they do not."""

from __future__ import annotations

import random
from pathlib import Path

from edgedec.bundle.manifest import MANIFEST, MODEL, WEIGHTS, Manifest
from tests.fuzz.mutate_onnx import mutate_places
from tests.fuzz.target import OUTSIDE, Files, Link, run_bundle, with_true_sizes

_LINKS = (
    f"{OUTSIDE}/weights.bin",
    f"{OUTSIDE}/secret",
    OUTSIDE,
    "/dev/zero",
    "/dev/null",
    "/etc/passwd",
    WEIGHTS,
    MODEL,
    "nowhere",
    ".",
)


def mutate(files: Files, rng: random.Random) -> None:
    """Other places in the graph; a shorter file; a link instead of a file, or of a folder to a file."""
    action = rng.random()
    if action < 0.7 and not isinstance(files[MODEL], Link):
        files[MODEL] = mutate_places(files[MODEL], rng)
    elif action < 0.85:
        files[WEIGHTS] = files[WEIGHTS][: rng.choice((0, 1, 4095, rng.randrange(len(files[WEIGHTS]) + 1)))]
    else:
        files[rng.choice((WEIGHTS, WEIGHTS, WEIGHTS, MODEL))] = Link(rng.choice(_LINKS).encode())


def read(folder: Path) -> None:
    """As a chat loads it, but with a manifest that states the sizes that the files have."""
    manifest = Manifest.from_json((folder / MANIFEST).read_text(encoding="utf-8"))
    with_true_sizes(folder, manifest).save(folder)
    run_bundle(folder, Manifest.load(folder))
