"""A bundle of EdgeDec's own ops on a GPU: its weights there, no KV cache."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from edgedec.backends.backend import DEFAULT_CACHE, BackendBase
from edgedec.backends.gpu.adapter import Adapter, adapters, choose
from edgedec.backends.gpu.arithmetic import Arithmetic, probe
from edgedec.backends.gpu.build.build import build_program
from edgedec.backends.gpu.build.builder import BuildLimits
from edgedec.backends.gpu.device import GpuDevice
from edgedec.backends.gpu.executor import Executor
from edgedec.backends.gpu.forward import GpuForward
from edgedec.backends.gpu.program import Program
from edgedec.backends.gpu.room import parts_of
from edgedec.backends.gpu.weights import GpuWeights
from edgedec.backends.onnx.graph import read_graph
from edgedec.core.cache_config import CacheConfig, KvType
from edgedec.core.forward import Capabilities
from edgedec.core.ledger import Ledger
from edgedec.core.manifest import Manifest
from edgedec.core.model_spec import ModelSpec
from edgedec.core.progress import Progress, silent

MAX_PASS_TOKENS = 128
MAX_ROWS = 16
"""Rows of the head at a time, as on the CPU."""
_SCORES_BYTES = 128 << 20
"""Most bytes of a layer's scores; passes are shorter where the context is long."""
_LEAST_PASS = 16


class GpuModel(BackendBase):
    """The ``Backend`` of a bundle with EdgeDec's ops, on a GPU. Every forward over it shares the weights.

    ``device``: an open one; None: that of the adapter that ``choose`` returns. ``progress`` is told how much
    of the weights is written.

    Whether it is exact is asked of the device: see ``arithmetic.probe``. ``device_ledger`` counts memory on
    the device; None: the ledger of each forward does, and nothing counts the weights.
    Raises UsageError, UnsupportedError, BadFileError, BackendError, MemoryBudgetError.
    """

    def __init__(
        self,
        bundle: Path,
        manifest: Manifest,
        *,
        threads: int | None = None,
        device: GpuDevice | None = None,
        device_ledger: Ledger | None = None,
        progress: Progress = silent,
    ) -> None:
        self.device = device or GpuDevice.open(choose(adapters()))
        self.arithmetic = probe(self.device)
        super().__init__(manifest.spec, _capabilities(manifest.spec, self.arithmetic), threads)
        self._bundle = bundle
        self._graph = read_graph(bundle)
        self._device_ledger = device_ledger
        program = self.program(CacheConfig())
        if device_ledger is not None:
            device_ledger.hold(self, "weights", program.weight_bytes())
        self._weights = GpuWeights(self.device, program)
        self._weights.load(bundle, progress)

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

    @property
    def weight_bytes(self) -> int:
        """Bytes of the weights on the device."""
        return self._weights.nbytes

    def device_bytes(self, cache: CacheConfig = DEFAULT_CACHE) -> dict[str, int]:
        """See ``Backend.device_bytes``."""
        return parts_of(self.program(cache))

    def program(self, cache: CacheConfig = DEFAULT_CACHE) -> Program:
        """Return the program for a KV cache; allocates nothing. Raises UnsupportedError, UsageError."""
        capacity, kv, caps = self._limits(cache)
        assert kv is not None, "kv_kinds is not empty"
        binding = self.device.limits["max-storage-buffer-binding-size"]
        return self._built(build_limits(self._spec, capacity, caps.max_pass, binding, kv))

    def _built(self, limits: BuildLimits) -> Program:
        return build_program(self._graph, self._spec, limits)

    def executor(self, cache: CacheConfig, ledger: Ledger) -> Executor:
        """Allocate a KV cache and what passes over it need. Raises as ``forward``."""
        counted = self._device_ledger or ledger
        return Executor(self.device, self.program(cache), self._weights, self.arithmetic.variants, counted)

    def forward(self, cache: CacheConfig = DEFAULT_CACHE, ledger: Ledger | None = None) -> GpuForward:
        """See ``Backend.forward``. Raises DeviceLostError too."""
        own = ledger or Ledger()
        executor = self.executor(cache, own)
        caps = _capabilities(self._spec, self.arithmetic, executor.program.max_pass)
        return GpuForward(executor, self._spec, caps, own, self.weight_bytes)


def build_limits(
    spec: ModelSpec, capacity: int, wanted: int, binding: int, kv: KvType = "fp16"
) -> BuildLimits:
    """Return the sizes of a program whose passes are over at most ``wanted`` tokens.

    The scores of a layer must be bound at once, in ``binding`` bytes.
    """
    each = spec.n_heads * capacity * 4
    longest = max(min(wanted, min(binding, _SCORES_BYTES) // each), min(_LEAST_PASS, wanted))
    return BuildLimits(capacity, longest, min(MAX_ROWS, longest), binding, kv)


def _described(adapter: Adapter, arithmetic: Arithmetic) -> str:
    return f"{adapter.title}, {arithmetic.describe()}"


@cache
def _runtime(adapter: Adapter) -> str:
    device = GpuDevice.open(adapter)
    try:
        return _described(adapter, probe(device))
    finally:
        device.close()


def _capabilities(spec: ModelSpec, arithmetic: Arithmetic, most: int = MAX_PASS_TOKENS) -> Capabilities:
    return Capabilities(
        max_pass=most,
        trees=True,
        full_rows=True,
        exact=arithmetic.exact,
        portable=True,
        copies=True,
        reserves=True,
        kv_kinds=("fp16", "int8"),
    )
