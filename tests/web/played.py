"""A folder for browsers whose engine is played: the page, downloads and their faults, without a model."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from edgedec.bundle.manifest import Manifest
from edgedec.bundle.web_folder import PIECE, PageParts, WebModel, save_contents
from edgedec.export.web.index import write_page

WEIGHTS = "model/weights.bin"
GPU = ("run/shaders.json", "run/probe.json", "model/program.json")
PARTS = PageParts(
    "run/edgedec.wasm",
    "run/edgedec-fast.wasm",
    WEIGHTS,
    ("model/manifest.json",),
    ("model/cpu.json",),
    *GPU,
)


def played_folder(folder: Path, manifest: Manifest, weights: int = 2 * PIECE + 4321) -> Path:
    """Write such a folder, with so many bytes of random weights."""
    write_page(folder)
    script = Path(__file__).with_name("played_wasm.js")
    (folder / "run/wasm.js").write_text(script.read_text(encoding="utf-8"), encoding="utf-8")
    (folder / "model").mkdir()
    for name in (PARTS.wasm, PARTS.fast, *PARTS.engine, *PARTS.cpu, *GPU):
        (folder / name).write_text(f'{{"played": "{name}"}}', encoding="utf-8")
    (folder / WEIGHTS).write_bytes(np.random.default_rng(7).bytes(weights))
    save_contents(folder, WebModel(manifest, 256, 128), PARTS)
    return folder
