"""Opens a bundle on a GPU, as a ``DevicePlace`` says."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from edgedec.backends.backend import Backend
from edgedec.backends.gpu.model import GpuModel
from edgedec.backends.gpu.recovering import RecoveringModel
from edgedec.backends.gpu.split import SplitModel, layers_for
from edgedec.backends.onnx.model import OnnxModel
from edgedec.core.device_place import DevicePlace
from edgedec.core.manifest import Manifest


def place_on_gpu(
    bundle: Path, manifest: Manifest, place: DevicePlace, *, threads: int | None
) -> RecoveringModel:
    """Load a bundle of EdgeDec's own ops on a GPU; the CPU goes on where that is lost.

    Raises UsageError, UnsupportedError, BadFileError, BackendError, and MemoryBudgetError for a model that
    does not fit ``place.memory``.
    """
    layers = manifest.spec.n_layers if place.layers is None else layers_for(manifest, place.layers)
    ledger = None
    first: Backend
    if layers < manifest.spec.n_layers:
        first = SplitModel(bundle, manifest, threads=threads, layers=layers, device_ledger=ledger)
    else:
        first = GpuModel(bundle, manifest, threads=threads, device_ledger=ledger)
    if place.layers is not None and layers != min(place.layers, manifest.spec.n_layers):
        place.notice(
            f"note: {manifest.name} is cut after {layers} layers, the next place below {place.layers}"
        )
    return RecoveringModel(first, partial(OnnxModel, bundle, manifest, threads=threads), place.notice)
