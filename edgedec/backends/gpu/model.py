"""A bundle of EdgeDec's own ops on a GPU: its weights there, no KV cache."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

from edgedec.backends.backend import DEFAULT_CACHE, Backend
from edgedec.backends.gpu.adapter import Adapter, adapters, choose
from edgedec.backends.gpu.arithmetic import Arithmetic, probe
from edgedec.backends.gpu.build.build import KV_KINDS, build_program
from edgedec.backends.gpu.build.builder import BuildLimits
from edgedec.backends.gpu.device import GpuDevice
from edgedec.backends.gpu.executor import Executor
from edgedec.backends.gpu.forward import GpuForward
from edgedec.backends.gpu.program import Program
from edgedec.backends.gpu.room import parts_of
from edgedec.backends.gpu.weights import GpuWeights
from edgedec.backends.onnx.drafting import NO_EXITS, Exits, exits_of_bundle
from edgedec.backends.onnx.graph import OpGraph, read_graph
from edgedec.bundle.exits import LayerOutputs, out
from edgedec.bundle.manifest import DRAFTING, Manifest
from edgedec.core.cache_config import CacheConfig
from edgedec.core.forward import Capabilities
from edgedec.core.ledger import Ledger
from edgedec.core.model_spec import ModelSpec
from edgedec.core.progress import Progress, silent
from edgedec.core.quick_dataclass import dataclass
from edgedec.memory import most_undone

MAX_PASS_TOKENS = 128


@dataclass(frozen=True, slots=True)
class Loading:
    """Counts memory on a device, and follows how weights get there.

    ``ledger`` None: the ledger of each forward counts its memory, and nothing counts the weights.
    ``sequences``: conversations at once.
    """

    ledger: Ledger | None = None
    progress: Progress = silent
    sequences: int = 1


NOT_COUNTED = Loading()


class GpuModel(Backend):
    """The ``Backend`` of a bundle with EdgeDec's ops, on a GPU. Every forward over it shares the weights.

    ``device``: an open one; None: that of the adapter that ``choose`` returns. ``drafting``: with exits,
    hidden states and trimmed heads, as its ``drafting.onnx`` states them.

    Whether it is exact is asked of the device: see ``arithmetic.probe``.
    Raises UsageError, UnsupportedError, BadFileError, BackendError, MemoryBudgetError.
    """

    def __init__(
        self,
        bundle: Path,
        manifest: Manifest,
        *,
        threads: int | None = None,
        device: GpuDevice | None = None,
        loading: Loading = NOT_COUNTED,
        drafting: LayerOutputs = False,
    ) -> None:
        self.device = device or GpuDevice.open(choose(adapters()))
        self.arithmetic = probe(self.device)
        self._graph = read_graph(bundle)
        self._exits = wanted_exits(bundle, manifest, self._graph, drafting)
        super().__init__(manifest.spec, self._capabilities(manifest.spec), threads)
        self._bundle = bundle
        self._device_ledger, self._sequences = loading.ledger, loading.sequences
        program = self.program(CacheConfig())
        if loading.ledger is not None:
            loading.ledger.hold(self, "weights", program.weight_bytes())
        self._weights = GpuWeights(self.device, program)
        self.weight_bytes = self._weights.nbytes
        self._weights.load(bundle, loading.progress)

    @staticmethod
    def runtime_name() -> str:
        """The adapter that would run, and whether its results have the CPU's bits.

        Raises as ``choose``, and BackendError.
        """
        return _runtime(choose(adapters()))

    @property
    def runtime(self) -> str:
        """The adapter that runs, and whether its results have the CPU's bits."""
        return _described(self.device.adapter, self.arithmetic)

    def device_bytes(self, cache: CacheConfig = DEFAULT_CACHE) -> dict[str, int]:
        """See ``Backend.device_bytes``."""
        return parts_of(self.program(cache), self._sequences)

    def program(self, cache: CacheConfig = DEFAULT_CACHE) -> Program:
        """Return the program for a KV cache; allocates nothing. Raises UnsupportedError, UsageError."""
        capacity, kv, caps = self._limits(cache)
        assert kv is not None, "kv_kinds is not empty"
        binding = self.device.limits["max-storage-buffer-binding-size"]
        fused = self.device.adapter.fuses
        return self._built(BuildLimits(capacity, caps.max_pass, binding, kv, self._exits, fused))

    def _built(self, limits: BuildLimits) -> Program:
        return build_program(self._graph, self.spec, limits)

    def executor(self, cache: CacheConfig, ledger: Ledger) -> Executor:
        """Allocate a KV cache and what passes over it need. Raises as ``forward``."""
        counted = self._device_ledger or ledger
        return Executor(self.device, self.program(cache), self._weights, self.arithmetic.variants, counted)

    def forward(self, cache: CacheConfig = DEFAULT_CACHE, ledger: Ledger | None = None) -> GpuForward:
        """See ``Backend.forward``. Raises DeviceLostError too."""
        own = ledger or Ledger()
        executor = self.executor(cache, own)
        caps = replace(self.caps, max_pass=executor.program.max_pass)
        return GpuForward(executor, self.spec, caps, own, self.weight_bytes)

    def _capabilities(self, spec: ModelSpec) -> Capabilities:
        return Capabilities(
            max_pass=MAX_PASS_TOKENS,
            trees=True,
            exact=self.arithmetic.exact,
            most_undone=most_undone(spec.states),
            reserves=True,
            kv_kinds=KV_KINDS,
            taps=self._exits.taps,
            exits=self._exits.exits,
            trims=bool(self._exits.exits or self._exits.taps),
        )


def wanted_exits(bundle: Path, manifest: Manifest, graph: OpGraph, drafting: LayerOutputs) -> Exits:
    """Return the exits of a bundle, and layers that are wanted beside them, as far as ``graph`` has them.

    None without ``drafting``, and where the bundle has no graph for it. Raises BadFileError.
    """
    if not drafting or DRAFTING not in manifest.files:
        return NO_EXITS
    found = exits_of_bundle(bundle, manifest.spec)
    made = {name for node in graph.nodes for name in node.outputs}
    more = () if isinstance(drafting, bool) else (tap for tap in drafting if out(tap) in made)
    return replace(found, taps=tuple(sorted({*found.taps, *more})))


def _described(adapter: Adapter, arithmetic: Arithmetic) -> str:
    apart = "" if adapter.fuses else ", gated MLPs in two dispatches: its compiler is slow"
    return f"{adapter.title}, {arithmetic.describe()}{apart}"


@cache
def _runtime(adapter: Adapter) -> str:
    device = GpuDevice.open(adapter)
    try:
        return _described(adapter, probe(device))
    finally:
        device.close()
