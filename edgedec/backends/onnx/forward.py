"""A bundle run by ONNX Runtime with EdgeDec's kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from edgedec.backends.checks import check_threads, check_tokens, checked_capacity
from edgedec.backends.onnx.kv_forward import Cached
from edgedec.backends.onnx.kv_memory import KvMemory
from edgedec.backends.onnx.passes import Fed, Passes
from edgedec.backends.onnx.sequences import Places
from edgedec.backends.onnx.session import (
    check_attention,
    check_places,
    check_shapes,
    open_session,
    physical_cores,
)
from edgedec.core.errors import UnsupportedError
from edgedec.core.forward import Capabilities
from edgedec.core.manifest import WEIGHTS, Manifest
from edgedec.core.model_spec import ModelSpec
from edgedec.core.rows import LAST_ROW, FloatArray, HeadRows, Rows
from edgedec.memory import KvType, Pass, ring_slots
from edgedec.memory.footprint import scratch_bytes
from edgedec.memory.ledger import Ledger
from edgedec.telemetry.process import mapped_bytes

MAX_PASS = 512


class OnnxForward(Cached):
    """The ``Forward`` of an exported bundle. Keys and values live in one array, which the kernels write.

    ``threads``: compute threads (None: one per physical core); ``spin``: they wait actively between ops, best
    when the cores are ours. ``capacity``: tokens the cache holds (None: what the model was made for, at most
    4096). ``kv``: how it keeps keys and values; "int8" takes about half the bytes, and has other results, as
    exact: the same bits whatever passes tokens came in. ``max_pass``: most tokens of one pass, for which
    rings of layers with a window have room. Raises UsageError for a capacity the model was not made for, and
    what ``open_session``, ``check_shapes`` and ``KvMemory`` raise.
    """

    def __init__(
        self,
        bundle: Path,
        manifest: Manifest,
        *,
        threads: int | None = None,
        capacity: int | None = None,
        spin: bool = True,
        kv: KvType = "fp16",
        max_pass: int = MAX_PASS,
    ) -> None:
        chosen = checked_capacity(manifest.spec, capacity)
        check_threads(threads)
        caps = Capabilities(max_pass=min(max_pass, MAX_PASS, chosen), trees=True, full_rows=True, exact=True)
        self.ledger = Ledger()
        super().__init__(manifest.spec, caps, self._memory(manifest.spec, chosen, kv, caps.max_pass))
        self._kind: KvType = kv
        self._threads = threads or physical_cores()
        before = mapped_bytes(bundle / WEIGHTS)
        self._session = open_session(bundle, threads, spin=spin)
        # Every tensor is mapped by itself, in whole pages: more than the file has.
        self._weight_bytes = max(mapped_bytes(bundle / WEIGHTS) - before, manifest.files[WEIGHTS].bytes)
        check_shapes(self._session, self._spec, kv)
        self._scratch = self.ledger.lease("scratch", 0)
        self._passes = self._passes_over(self._kv, caps.max_pass)

    def takes(self, kv: KvType) -> bool:
        """Whether the graph has a cache in ``kv``: bundles of earlier versions know fp16 alone."""
        try:
            check_shapes(self._session, self._spec, kv)
        except UnsupportedError:
            return False
        return True

    def reserve(self, capacity: int, kv: KvType, max_pass: int, ledger: Ledger | None = None) -> None:
        """Start over with an empty cache of ``capacity`` tokens, kept in ``kv``, and passes over at most
        ``max_pass`` tokens; what they take is leased from ``ledger``. Raises what the constructor does for
        these.
        """
        chosen = checked_capacity(self._spec, capacity)
        check_shapes(self._session, self._spec, kv)
        self._caps = replace(self._caps, max_pass=min(max_pass, MAX_PASS, chosen))
        self._kind = kv
        self.ledger = ledger or Ledger()
        self._scratch = self.ledger.lease("scratch", 0)
        self._hold(self._memory(self._spec, chosen, kv, self._caps.max_pass))
        self._passes = self._passes_over(self._kv, self._caps.max_pass)

    def places(self, count: int, *, piece: int, most: int) -> Places:
        """``count`` conversations side by side, in a cache of their own, each with the capacity of this one.

        One conversation feeds at most ``piece`` tokens at once, all together ``most``. Raises
        UnsupportedError for a bundle of an earlier version, and what ``KvMemory`` raises.
        """
        check_places(self._session)
        caps = replace(self._caps, max_pass=min(piece, MAX_PASS, self.capacity))
        kv = self._memory(self._spec, self.capacity, self._kind, caps.max_pass, count)
        return Places(
            self._passes_over(kv, max(most, caps.max_pass)),
            kv,
            self._spec,
            caps,
            count=count,
            most=most,
            weights=self._weight_bytes,
        )

    def _memory(self, spec: ModelSpec, capacity: int, kv: KvType, longest: int, places: int = 1) -> KvMemory:
        ring = ring_slots(spec, capacity, longest, kv)
        return KvMemory(spec, places * capacity, kv, places * ring, self.ledger)

    def _passes_over(self, kv: KvMemory, longest: int) -> Passes:
        """Passes over at most ``longest`` tokens. The runtime keeps what it needed for one."""
        self._scratch.grow(scratch_bytes(self._spec, self._threads, longest, self.capacity))
        return Passes(self._session, self._spec, kv.arrays, self.ledger)

    def extend(
        self, tokens: Sequence[int], *, parents: Sequence[int] | None = None, rows: Rows = LAST_ROW
    ) -> HeadRows:
        """See ``Forward.extend``. Raises BackendError when the runtime fails and BadFileError when the
        logits are not numbers; nothing is appended then.
        """
        planned, fed = self._planned(tokens, parents, rows)
        result = self._passes.run(fed)
        self._book.append(planned)
        return result

    def attention(self, tokens: Sequence[int]) -> FloatArray:
        """See ``Selecting.attention``; computes no logits. Raises UnsupportedError also for a model with
        layers that see a window.
        """
        check_attention(self._session, self._spec)
        planned, fed = self._planned(tokens, None, Rows(()))
        found = self._passes.attention(fed)
        self._book.append(planned)
        return found

    def _planned(self, tokens: Sequence[int], parents: Sequence[int] | None, rows: Rows) -> tuple[Pass, Fed]:
        count = len(tokens)
        check_tokens(tokens, self._caps.max_pass, self._spec.vocab_size)
        planned = self._plan(count, parents)
        chosen = rows.resolve(count)
        lengths = (planned.start,)
        return planned, Fed(
            tokens, planned.positions, planned.parents, lengths, chosen, rows.full, rows.temperature
        )

    def nbytes(self) -> dict[str, int]:
        """``weights``: mapped from the bundle; ``kv_cache``: reserved, committed page by page as it fills."""
        return {"weights": self._weight_bytes, "kv_cache": self._kv.reserved}
