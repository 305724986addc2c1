"""Tiny random models exported for an NPU, and the device of the tests: ONNX Runtime's own ops."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

from edgedec.backends.npu.model import NpuModel
from edgedec.backends.npu.plugins import CPU
from edgedec.bundle.manifest import Manifest
from edgedec.export import export_for_npu
from tests.fixtures.tiny_gguf import write_tiny

ASKED = replace(CPU, name="asked", asked=True)
"""The same ops, asked for equal bits: tiny models often have them, but no processor must give them."""


def npu_bundles(folder: Path) -> Callable[[str], Path]:
    """Return a function that exports a tiny model of an architecture into ``folder``, once."""

    @cache
    def bundle(architecture: str) -> Path:
        gguf = write_tiny(folder / f"{architecture}.gguf", architecture)
        export_for_npu(gguf, folder / architecture)
        return folder / architecture

    return bundle


def npu_model(bundle: Path, *, asked: bool = False) -> NpuModel:
    """Open a bundle on the CPU."""
    return NpuModel(bundle, Manifest.load(bundle), threads=1, plugin=ASKED if asked else CPU)
