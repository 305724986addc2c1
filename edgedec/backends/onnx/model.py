"""A bundle of EdgeDec's own ops, loaded into ONNX Runtime: weights and session, no KV cache."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from edgedec.backends.backend import DEFAULT_CACHE, Backend, Observe, Submit, unobserved
from edgedec.backends.checks import check_sequences
from edgedec.backends.onnx.drafting import NO_EXITS
from edgedec.backends.onnx.expert_store import ExpertStore, experts_on_disk, from_store, keep_dense
from edgedec.backends.onnx.forward import OnnxForward
from edgedec.backends.onnx.kv_memory import KvMemory
from edgedec.backends.onnx.passes import OnnxPasses
from edgedec.backends.onnx.session import check_shapes, open_session
from edgedec.bundle.device_place import ON_CPU, DevicePlace
from edgedec.bundle.exits import LayerOutputs, added_taps
from edgedec.bundle.manifest import DRAFTING, MODEL, WEIGHTS, Manifest
from edgedec.core.cache_config import MOST_SEQUENCES, CacheConfig, KvType
from edgedec.core.forward import Capabilities, Forward
from edgedec.core.ledger import Lease, Ledger
from edgedec.core.model_spec import ModelSpec
from edgedec.kernels.library import isa, read_ahead
from edgedec.memory import most_undone, ring_slots
from edgedec.memory.footprint import scratch_bytes
from edgedec.system.memory import mapped_bytes, mappings

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from edgedec.backends.onnx.batcher import Batcher
    from edgedec.backends.onnx.sequences import Sequences

MAX_PASS_TOKENS = 512


class OnnxModel(Backend):
    """The ``Backend`` of a bundle with EdgeDec's kernels. Every forward over it shares the weights.

    ``threads``: compute threads (None: one per physical core). ``spin``: they wait actively between ops,
    which is best when no one else needs the cores. ``drafting``: open ``drafting.onnx`` in place of
    ``model.onnx``, where the bundle has it: the same passes, with exits, hidden states and trimmed heads.
    ``place``: the bytes that the process may take (None: what the machine has left), and those of them that
    weights of drafters need; where experts do not fit, they are read from the disk as passes need them.
    Its ``adapters`` are changes of matrices, which every pass computes.
    Raises UsageError, BadFileError or BackendError when the bundle or the library cannot be used (see
    ``open_session`` and ``check_shapes``).
    """

    def __init__(
        self,
        bundle: Path,
        manifest: Manifest,
        *,
        threads: int | None = None,
        spin: bool = True,
        drafting: LayerOutputs = False,
        place: DevicePlace = ON_CPU,
    ) -> None:
        super().__init__(manifest.spec, _capabilities(manifest.spec), threads)
        self.experts: ExpertStore | None = experts_on_disk(
            bundle / WEIGHTS, manifest, place.memory, place.beside
        )
        if not self.experts:
            # Few rows of a table of embeddings are read, and it lies first.
            read_ahead(bundle / WEIGHTS, self.spec.table_bytes)
        before = mappings(bundle / WEIGHTS)
        graph = DRAFTING if drafting and DRAFTING in manifest.files else MODEL
        taps = () if isinstance(drafting, bool) else drafting
        changes: list[Callable[[bytes], bytes]] = []
        if taps and graph == DRAFTING:
            from edgedec.backends.onnx.tap_outputs import with_outputs

            changes.append(partial(with_outputs, layers=taps, hidden=self.spec.hidden_size))
        if self.experts:
            changes.append(partial(from_store, store=self.experts.number))
        arrays: dict[str, NDArray[np.uint8]] = {}
        self._pass_spec = self.spec
        if place.adapters:
            from edgedec.backends.onnx.low_rank import LowRankGraph
            from edgedec.core.low_rank import together, wider

            read = [adapter() for adapter in place.adapters]
            changed = LowRankGraph(together(read))
            changes.append(changed.apply)
            arrays, self._pass_spec = changed.arrays, wider(self.spec, changed.matrices)
            self.changed_by = tuple(one.sha256 for one in read if one.changes)
        self._session = open_session(bundle, threads, spin=spin, graph=graph, changes=changes, arrays=arrays)
        if self.experts:
            keep_dense(bundle / WEIGHTS, before, self.spec.table_bytes, short=self.experts.direct)
        # Every tensor is mapped by itself, in whole pages: more than the file has.
        on_disk = self.experts.experts.nbytes if self.experts else 0
        in_file = manifest.files[WEIGHTS].bytes - on_disk
        mapped = mapped_bytes(bundle / WEIGHTS) - sum(one.nbytes for one in before)
        self.weight_bytes = max(mapped, in_file)
        if graph == DRAFTING:
            from edgedec.backends.onnx.exits import read_exits

            self._exits = read_exits(self._session, self.spec, taps)
            found = self._exits
            trims = bool(found.exits or found.taps)
            self.caps = replace(self.caps, taps=found.taps, exits=found.exits, trims=trims)
        else:
            self._exits = NO_EXITS
            check_shapes(self._session, self.spec)
        self._scratch: dict[Ledger, Lease] = {}

    @property
    def pass_spec(self) -> ModelSpec:
        """See ``Backend.pass_spec``."""
        return self._pass_spec

    @staticmethod
    def runtime_name() -> str:
        """The kernel row that this machine runs. Raises UsageError for an EDGEDEC_ISA that it cannot run."""
        return isa()

    def forward(self, cache: CacheConfig = DEFAULT_CACHE, ledger: Ledger | None = None) -> OnnxForward:
        """See ``Backend.forward``. ``max_pass`` also sizes the rings of layers with a window."""
        capacity, kv, caps = self._limits(cache)
        ledger = ledger or Ledger()
        memory = self._memory(capacity, kv, caps.max_pass, 1, ledger)
        passes = self._passes(memory, caps.max_pass, capacity, ledger)
        return OnnxForward(passes, memory, self.spec, caps, self.weight_bytes)

    def sequences(
        self,
        count: int,
        cache: CacheConfig = DEFAULT_CACHE,
        *,
        batch_tokens: int,
        ledger: Ledger | None = None,
        observe: Observe = unobserved,
    ) -> Batcher:
        """See ``Backend.sequences``."""
        from edgedec.backends.onnx.batcher import Batcher

        return Batcher(
            lambda submit: self.shared_cache(count, cache, batch_tokens, ledger, submit), observe=observe
        )

    def contrasting(
        self,
        weight: float,
        cache: CacheConfig = DEFAULT_CACHE,
        *,
        batch_tokens: int,
        ledger: Ledger | None = None,
    ) -> Forward:
        """See ``Backend.contrasting``."""
        from edgedec.backends.contrast import ContrastForward

        shared = self.shared_cache(2, cache, batch_tokens, ledger)
        return ContrastForward(shared.forwards, partial(shared.run, lent=True), shared.most, weight)

    def shared_cache(
        self,
        count: int,
        cache: CacheConfig,
        batch_tokens: int,
        ledger: Ledger | None = None,
        submit: Submit | None = None,
    ) -> Sequences:
        """Make the cache of ``sequences``, without the thread in which their passes meet.

        ``submit`` computes a forward's request; None: a pass of its own.
        """
        from edgedec.backends.onnx.sequences import SequenceModel, Sequences

        check_sequences(self.spec, self.caps, count)
        capacity, kv, caps = self._limits(cache)
        ledger = ledger or Ledger()
        memory = self._memory(capacity, kv, caps.max_pass, count, ledger)
        most = max(batch_tokens, caps.max_pass)
        passes = self._passes(memory, most, capacity, ledger)
        caps = replace(caps, taps=(), exits=())  # but a head can be trimmed in passes of several
        shared = SequenceModel(self.spec, caps, self.weight_bytes)
        return Sequences(passes, memory, shared, count, most, submit)

    def _memory(self, capacity: int, kv: KvType | None, longest: int, count: int, ledger: Ledger) -> KvMemory:
        assert kv is not None, "kv_kinds is not empty"
        ring = ring_slots(self.spec, capacity, longest, kv)
        return KvMemory(self.spec, count * capacity, kv, count * ring, ledger, count)

    def _passes(self, memory: KvMemory, longest: int, capacity: int, ledger: Ledger) -> OnnxPasses:
        """Lease the memory of ONNX Runtime for passes over at most ``longest`` tokens.

        All forwards share the session and so its memory: each ledger has one lease, of the most that any
        forward needs.
        """
        if ledger not in self._scratch:
            self._scratch[ledger] = ledger.lease("scratch", 0)
        exits = len(self.caps.exits) + added_taps(self.caps.taps, self.caps.exits, self.spec.n_layers)
        self._scratch[ledger].grow(scratch_bytes(self.pass_spec, self.threads, longest, capacity, exits))
        return OnnxPasses(self._session, self.spec, memory.arrays, ledger, self._exits, self.experts)


def _capabilities(spec: ModelSpec) -> Capabilities:
    return Capabilities(
        max_pass=MAX_PASS_TOKENS,
        trees=True,
        exact=True,
        most_undone=most_undone(spec.states),
        reserves=True,
        sequences=MOST_SEQUENCES,
        kv_kinds=("fp16", "int8"),
        contrasts=True,
    )
