"""The backend that runs a bundle, by the kind that its manifest states."""

from __future__ import annotations

from pathlib import Path

from edgedec.core.manifest import Manifest
from edgedec.core.types import Forward


def open_forward(
    bundle: Path, manifest: Manifest, *, threads: int | None = None, capacity: int | None = None
) -> Forward:
    """Load a bundle; arguments and errors are those of ``OnnxForward``."""
    if manifest.kind == "optimum":
        from edgedec.backends.decoder import DecoderForward

        return DecoderForward(bundle, manifest, threads=threads, capacity=capacity)
    from edgedec.backends.onnx import OnnxForward

    return OnnxForward(bundle, manifest, threads=threads, capacity=capacity)


def kernels_of(manifest: Manifest) -> str:
    """What computes: the kernel row that this machine runs, or ONNX Runtime itself. Raises UsageError."""
    if manifest.kind == "optimum":
        return "onnxruntime"
    from edgedec.kernels.library import isa

    return isa()
