"""Opens a bundle on a GPU, as a ``DevicePlace`` says."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from edgedec.backends.backend import Backend
from edgedec.backends.gpu.recovering import RecoveringModel
from edgedec.core.device_place import DevicePlace
from edgedec.core.manifest import Manifest


def place_on_gpu(
    bundle: Path, manifest: Manifest, place: DevicePlace, *, threads: int | None, drafting: bool
) -> Backend:
    """Load a bundle of EdgeDec's own ops on a GPU; the CPU goes on where that is lost.

    Raises UsageError, UnsupportedError, BadFileError, BackendError, and MemoryBudgetError for a model that
    does not fit ``place.memory``.
    """
    from edgedec.backends.gpu.model import GpuModel
    from edgedec.backends.onnx.model import OnnxModel

    first = GpuModel(bundle, manifest, threads=threads)
    return RecoveringModel(first, partial(OnnxModel, bundle, manifest, threads=threads), place.notice)
