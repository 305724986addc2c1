"""Opens a bundle on a GPU, as a ``DevicePlace`` says."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

from edgedec.backends.backend import Backend
from edgedec.backends.checks import checked_capacity
from edgedec.backends.gpu.adapter import adapters, choose
from edgedec.backends.gpu.build.build import build_lower, build_program
from edgedec.backends.gpu.build.builder import BuildLimits
from edgedec.backends.gpu.device import GpuDevice
from edgedec.backends.gpu.model import MAX_PASS_TOKENS, GpuModel, Loading, wanted_exits
from edgedec.backends.gpu.program import Program
from edgedec.backends.gpu.recovering import RecoveringModel
from edgedec.backends.gpu.room import DeviceRoom
from edgedec.backends.gpu.split import SplitModel, layers_for
from edgedec.backends.onnx.graph import read_graph
from edgedec.backends.onnx.model import OnnxModel
from edgedec.bundle.device_place import DevicePlace
from edgedec.bundle.exits import LayerOutputs, exits_of
from edgedec.bundle.manifest import DRAFTING, Manifest
from edgedec.core.cache_config import MOST_SEQUENCES


def place_on_gpu(
    bundle: Path,
    manifest: Manifest,
    place: DevicePlace,
    *,
    threads: int | None = None,
    device: GpuDevice | None = None,
    drafting: LayerOutputs = False,
) -> RecoveringModel:
    """Load a bundle of EdgeDec's own ops on a GPU; the CPU goes on where that is lost.

    ``device``: an open one; None: that of the adapter that ``choose`` returns. ``drafting``: see
    ``GpuModel``; without effect where some layers run on the CPU. Raises UsageError, UnsupportedError,
    BadFileError, BackendError, and MemoryBudgetError for a model that does not fit ``place.memory``, before
    anything is loaded.
    """
    every = manifest.spec.n_layers
    layers = every if place.layers is None else layers_for(manifest, place.layers)
    device = device or GpuDevice.open(choose(adapters()))
    ledger = _room(bundle, manifest, place, device, drafting=drafting).ledger(layers)
    if place.layers is not None and layers != min(place.layers, every):
        place.notice(
            f"note: {manifest.name} is cut after {layers} layers, the next place below {place.layers}"
        )
    first: Backend
    if layers < every:
        first = SplitModel(
            bundle, manifest, threads=threads, layers=layers, device=device, device_ledger=ledger
        )
    else:
        first = GpuModel(
            bundle,
            manifest,
            threads=threads,
            device=device,
            loading=Loading(ledger, place.progress, place.sequences),
            drafting=drafting,
        )
    whole = drafting if layers == every else False
    spare = partial(OnnxModel, bundle, manifest, threads=threads, drafting=whole)
    return RecoveringModel(first, spare, place.notice, MOST_SEQUENCES if layers == every else 1)


def _room(
    bundle: Path, manifest: Manifest, place: DevicePlace, device: GpuDevice, *, drafting: LayerOutputs
) -> DeviceRoom:
    spec, graph = manifest.spec, read_graph(bundle)
    capacity = checked_capacity(spec, place.context)
    binding = device.limits["max-storage-buffer-binding-size"]
    longest, fused = min(MAX_PASS_TOKENS, capacity), device.adapter.fuses
    limits = BuildLimits(capacity, longest, binding, place.kv, fused=fused)
    drafts = wanted_exits(bundle, manifest, graph, drafting)

    def program(layers: int) -> Program:
        if layers == spec.n_layers:
            return build_program(graph, spec, replace(limits, drafting=drafts))
        return build_lower(graph, spec, limits, layers)

    whole = DRAFTING not in manifest.files or spec.caches
    cuts = () if whole else exits_of(spec.n_layers)
    return DeviceRoom(manifest.name, place.memory, cuts, program, place.sequences)
