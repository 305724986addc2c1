"""A model whose first layers run on a GPU, and the others on the CPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from edgedec.backends.backend import DEFAULT_CACHE
from edgedec.backends.gpu.build.build import build_lower
from edgedec.backends.gpu.build.builder import BuildLimits
from edgedec.backends.gpu.device import GpuDevice
from edgedec.backends.gpu.executor import Executor
from edgedec.backends.gpu.inputs import GpuPass
from edgedec.backends.gpu.model import GpuModel, Loading
from edgedec.backends.gpu.program import Program
from edgedec.backends.onnx.forward import OnnxForward
from edgedec.backends.onnx.kv_memory import KvMemory
from edgedec.backends.onnx.model import OnnxModel
from edgedec.backends.onnx.passes import OnnxPasses
from edgedec.bundle.exits import exits_of
from edgedec.bundle.manifest import DRAFTING, Manifest
from edgedec.core.cache_config import CacheConfig
from edgedec.core.errors import Remedy, UnsupportedError
from edgedec.core.forward import Capabilities
from edgedec.core.ledger import Ledger
from edgedec.core.model_spec import ModelSpec
from edgedec.core.rows import LAST_ROW, HeadRows, Parents, Rows


class SplitForward(OnnxForward):
    """The ``Forward`` over both halves: rows go from ``lower`` to the layers behind its own, on the CPU.

    It has no parts: what reads, writes or moves slots on the CPU does not know of the other half.
    """

    peeking = evicting = attending = portable = copying = lent = None

    def __init__(
        self,
        lower: Executor,
        passes: OnnxPasses,
        kv: KvMemory,
        spec: ModelSpec,
        caps: Capabilities,
        weight_bytes: int,
    ) -> None:
        super().__init__(passes, kv, spec, caps, weight_bytes)
        self._lower, self._layers = lower, len(lower.caches())

    def extend(self, tokens: Sequence[int], *, parents: Parents = None, rows: Rows = LAST_ROW) -> HeadRows:
        """See ``Forward.extend``. Raises DeviceLostError, and as ``OnnxForward.extend``."""
        planned, fed = self._planned(tokens, parents, rows)
        reached = self._lower.hidden(GpuPass(tokens, fed.positions, fed.parents, planned.start, ()))
        result = self._passes.run(fed._replace(tokens=(), warm_exit=self._layers, warm=reached))
        self._book.append(planned)
        return result

    def keep_path(self, nodes: Sequence[int]) -> None:
        """See ``Forward.keep_path``."""
        sources, targets = self._book.keep(nodes)
        self._kv.move(sources, targets)
        if sources:
            start = targets[0]
            self._lower.settle(start, [slot - start for slot in sources])


class LowerModel(GpuModel):
    """The first ``layers`` layers of a bundle on a GPU, without a head; see ``GpuModel``."""

    def __init__(
        self,
        bundle: Path,
        manifest: Manifest,
        *,
        layers: int,
        device: GpuDevice | None = None,
        device_ledger: Ledger | None = None,
    ) -> None:
        self.layers = layers
        super().__init__(bundle, manifest, device=device, loading=Loading(device_ledger))

    def _built(self, limits: BuildLimits) -> Program:
        return build_lower(self._graph, self.spec, limits, self.layers)


class SplitModel(OnnxModel):
    """The ``Backend`` of a bundle with its first ``layers`` layers on a GPU; see ``layers_for``.

    Raises the errors of ``OnnxModel`` and ``GpuModel``.
    """

    def __init__(
        self,
        bundle: Path,
        manifest: Manifest,
        *,
        layers: int,
        threads: int | None = None,
        device: GpuDevice | None = None,
        device_ledger: Ledger | None = None,
    ) -> None:
        self.lower = LowerModel(bundle, manifest, layers=layers, device=device, device_ledger=device_ledger)
        self.layers = layers
        super().__init__(bundle, manifest, threads=threads, drafting=True)
        lower = self.lower.caps  # several sequences do not know of a second half, nor do exits
        own = replace(self.caps, exits=(), taps=(), trims=False, sequences=1, contrasts=False)
        self.caps = replace(own, max_pass=lower.max_pass, exact=lower.exact)

    @property
    def runtime(self) -> str:
        """The adapter and the kernel row, with the layers of each."""
        rest = self.spec.n_layers - self.layers
        return f"{self.lower.runtime} for {self.layers} layers, {self.runtime_name()} for {rest}"

    def device_bytes(self, cache: CacheConfig = DEFAULT_CACHE) -> dict[str, int]:
        """See ``Backend.device_bytes``."""
        return self.lower.device_bytes(cache)

    def forward(self, cache: CacheConfig = DEFAULT_CACHE, ledger: Ledger | None = None) -> SplitForward:
        """See ``Backend.forward``."""
        capacity, kv, caps = self._limits(cache)
        ledger = ledger or Ledger()
        lower = self.lower.executor(CacheConfig(capacity, kv, caps.max_pass), ledger.under("gpu"))
        caps = replace(caps, max_pass=lower.program.max_pass)
        memory = self._memory(capacity, kv, caps.max_pass, 1, ledger)
        passes = self._passes(memory, caps.max_pass, capacity, ledger)
        return SplitForward(lower, passes, memory, self.spec, caps, self.weight_bytes)


def layers_for(manifest: Manifest, wanted: int) -> int:
    """Return how many layers run on the GPU: at most ``wanted``, where the model can be cut.

    Raises UnsupportedError for a bundle that cannot be cut, or not as low as that.
    """
    if DRAFTING not in manifest.files or manifest.spec.caches:
        raise UnsupportedError(
            f"{manifest.name} cannot be cut between its layers",
            hint="run all of it in one place" + ("" if manifest.spec.caches else ", or export it again"),
            remedy=(Remedy("gpu_layers"), *(() if manifest.spec.caches else (Remedy("export"),))),
        )
    cuts = exits_of(manifest.spec.n_layers)
    possible = [cut for cut in cuts if cut <= wanted]
    if not possible:
        raise UnsupportedError(
            f"{manifest.name} can be cut after {', '.join(map(str, cuts[:-1]))} layers, not before",
            hint=f"{cuts[0]} layers or more",
        )
    return possible[-1]
