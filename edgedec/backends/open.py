"""Opens a bundle with the backend of the kind that its manifest states."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Protocol, cast

from edgedec.backends.backend import Backend
from edgedec.bundle.device_place import ON_CPU, DevicePlace
from edgedec.bundle.exits import LayerOutputs
from edgedec.bundle.manifest import ENCODER, Manifest
from edgedec.core.cache_config import Device
from edgedec.core.errors import Remedy, UnsupportedError
from edgedec.core.progress import Progress, silent

BACKENDS = {
    "edgedec": "edgedec.backends.onnx.model:OnnxModel",
    "optimum": "edgedec.backends.optimum:DecoderModel",
    "npu": "edgedec.backends.npu.model:NpuModel",
    "gguf": "edgedec.backends.llama_cpp.model:LlamaCppModel",
}
"""Manifest kind -> module and class of its backend, imported only when a bundle needs it."""


EDGEDEC, NPU = "edgedec", "npu"
"""Kinds of bundles that more than one device runs."""
_NOT_FOR = {"gpu": "for another runtime or device", "npu": "for the CPU"}


class BackendClass(Protocol):
    """The class of a backend. ``drafting`` is without effect where a bundle has no ``drafting.onnx``."""

    def __call__(
        self,
        bundle: Path,
        manifest: Manifest,
        *,
        threads: int | None,
        drafting: LayerOutputs,
    ) -> Backend: ...

    def runtime_name(self) -> str:
        """A static method: ``Backend.runtime``, known without a model. Raises UsageError."""


def open_backend(
    bundle: Path,
    manifest: Manifest,
    *,
    threads: int | None = None,
    drafting: LayerOutputs = False,
    place: DevicePlace = ON_CPU,
    progress: Progress = silent,
) -> Backend:
    """Load the model at ``bundle``, without a KV cache.

    ``threads``: None: one per physical core. ``drafting``: open its ``drafting.onnx``, so that forwards have
    exits and hidden states (``Capabilities.exits``); without effect where the bundle has none. ``place``:
    an NPU for a bundle that was exported for one, which the CPU runs too; a GPU for EdgeDec's own, and
    ``progress`` follows how its weights get there; changes of its matrices on the CPU. Raises
    UsageError, BadFileError, BackendError or UnsupportedError when the backend cannot run the bundle, or when
    no backend knows its kind.
    """
    if place.adapters and (manifest.kind != EDGEDEC or place.device != "cpu"):
        raise _not_adapted(place)
    if manifest.kind == NPU and place.device != "gpu":
        from edgedec.backends.npu.model import NpuModel

        return NpuModel(bundle, manifest, threads=threads, device=place.device)
    if place.device == "gpu" and manifest.kind == EDGEDEC:
        from edgedec.backends.gpu.opening import place_on_gpu

        followed = replace(place, progress=progress)
        return place_on_gpu(bundle, manifest, followed, threads=threads, drafting=drafting)
    if place.device != "cpu":
        raise UnsupportedError(
            f"{manifest.name} was exported {_NOT_FOR[place.device]}",
            hint=f"export it for {place.device}",
            remedy=Remedy("export") if place.device == "gpu" else Remedy("for", place.device),
        )
    if manifest.kind == EDGEDEC and (manifest.spec.experts or place.adapters):
        from edgedec.backends.onnx.model import OnnxModel

        return OnnxModel(bundle, manifest, threads=threads, drafting=drafting, place=place)
    return _class_for(manifest.kind)(bundle, manifest, threads=threads, drafting=drafting)


def _not_adapted(place: DevicePlace) -> UnsupportedError:
    where = f"on a {place.device.upper()}" if place.device != "cpu" else "by another runtime"
    return UnsupportedError(
        f"adapters cannot be applied to a model that runs {where}",
        hint="run it on the CPU with EdgeDec's kernels, or merge the adapter when the model is exported",
    )


def runtime_of(manifest: Manifest, device: Device = "cpu") -> str:
    """Return ``Backend.runtime`` without loading the model. Raises UsageError, UnsupportedError."""
    if manifest.kind == NPU:
        from edgedec.backends.npu.plugins import plugin_for

        return plugin_for(device).title
    if device == "gpu":
        from edgedec.backends.gpu.model import GpuModel

        return GpuModel.runtime_name()
    return _class_for(manifest.kind).runtime_name()


def _class_for(kind: str) -> BackendClass:
    if kind == ENCODER:
        raise UnsupportedError("the model makes vectors of texts and no replies", remedy=Remedy("embed"))
    if kind not in BACKENDS:
        raise UnsupportedError(f"no backend of this EdgeDec runs bundles of the kind {kind!r}")
    module, name = BACKENDS[kind].split(":")
    return cast("BackendClass", getattr(import_module(module), name))
