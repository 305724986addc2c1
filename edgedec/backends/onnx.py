"""A bundle run by ONNX Runtime with EdgeDec's kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from edgedec.backends.booked import Booked
from edgedec.backends.kv_memory import KvMemory
from edgedec.backends.limits import check_threads, check_tokens, checked_capacity
from edgedec.backends.onnx_pass import BoundPass
from edgedec.backends.onnx_session import check_shapes, has_temperature, one_line_errors, open_session
from edgedec.core.errors import UnsupportedError
from edgedec.core.manifest import WEIGHTS, Manifest
from edgedec.core.types import LAST_ROW, Capabilities, HeadRows, Rows, Sink, Source
from edgedec.memory import CacheBook, KvType, kv_bytes

MAX_PASS = 512
_SHORT = 32
"""Passes up to this many tokens recur (decoding, verification) and keep their buffers."""
_MOST_KEPT = 128


class OnnxForward(Booked):
    """The ``Forward`` of an exported bundle. Keys and values live in one array, which the kernels write.

    ``threads``: compute threads (None: one per physical core); ``spin``: they wait actively between ops, best
    when the cores are ours. ``capacity``: tokens the cache holds (None: what the model was made for, at most
    4096). ``kv``: how it keeps keys and values; "int8" takes about half the bytes, and has other results, as
    exact: the same bits whatever passes tokens came in. Raises UsageError for a capacity the model was not
    made for, and what ``open_session``, ``check_shapes`` and ``KvMemory`` raise.
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
    ) -> None:
        chosen = checked_capacity(manifest.spec, capacity)
        check_threads(threads)
        caps = Capabilities(max_pass=min(MAX_PASS, chosen), trees=True, full_rows=True, exact=True)
        super().__init__(manifest.spec, caps, chosen)
        self._weight_bytes = manifest.files[WEIGHTS].bytes
        self._kv = KvMemory(self._spec, chosen, kv)
        self._kv_bytes = kv_bytes(self._spec, chosen, kv)
        self._reached = 0
        self._session = open_session(bundle, threads, spin=spin)
        check_shapes(self._session, self._spec, kv)
        self._tempered = has_temperature(self._session)
        self._bound: dict[tuple[int, int, bool], BoundPass] = {}

    def takes(self, kv: KvType) -> bool:
        """Whether the graph has a cache in ``kv``: bundles of earlier versions know fp16 alone."""
        try:
            check_shapes(self._session, self._spec, kv)
        except UnsupportedError:
            return False
        return True

    def reserve(self, capacity: int, kv: KvType, max_pass: int) -> None:
        """Start over with an empty cache of ``capacity`` tokens, kept in ``kv``, and passes over at most
        ``max_pass`` tokens. Raises what the constructor does for these.
        """
        chosen = checked_capacity(self._spec, capacity)
        check_shapes(self._session, self._spec, kv)
        self._bound.clear()
        self._book = CacheBook(chosen)
        self._caps = replace(self._caps, max_pass=min(max_pass, MAX_PASS, chosen))
        self._kv = KvMemory(self._spec, chosen, kv)
        self._kv_bytes = kv_bytes(self._spec, chosen, kv)
        self._reached = 0

    def extend(
        self, tokens: Sequence[int], *, parents: Sequence[int] | None = None, rows: Rows = LAST_ROW
    ) -> HeadRows:
        """See ``Forward.extend``. Raises BackendError when the runtime fails and BadFileError when the
        logits are not numbers; nothing is appended then.
        """
        count = len(tokens)
        check_tokens(tokens, self._caps.max_pass, self._spec.vocab_size)
        planned = self._book.plan(count, parents)
        chosen = rows.resolve(count)
        with one_line_errors():
            bound = self._bound_for((count, len(chosen), rows.full))
            result = bound.run(tokens, planned, chosen, rows.temperature)
        self._book.append(planned)
        return result

    def rewind(self, length: int) -> None:
        """See ``Forward.rewind``. What a long way back frees goes to the operating system."""
        self._reached = max(self._reached, self._book.slots)
        super().rewind(length)
        if self._kv.release(self._book.slots, self._reached):
            self._reached = self._book.slots

    def evict(self, first: int, count: int) -> None:
        """See ``Evicting.evict``."""
        slots = self._book.slots
        self._reached = max(self._reached, slots)
        self._book.evict(first, count)
        self._kv.close(first, count, slots)

    def keep_path(self, nodes: Sequence[int]) -> None:
        """See ``Forward.keep_path``. Copies nothing for a path that begins the pass."""
        self._kv.move(*self._book.keep(nodes))

    @property
    def cache_layout(self) -> str:
        """See ``PortableCache``."""
        return self._kv.layout

    def cache_bytes(self, length: int) -> int:
        """See ``PortableCache.cache_bytes``."""
        return self._kv.nbytes(length)

    def write_cache(self, sink: Sink, length: int) -> None:
        """See ``PortableCache.write_cache``."""
        if not self._book.settled or self.evicted or not 0 <= length <= self.length:
            raise ValueError(f"cannot write {length} tokens: the cache does not hold them, or an open tree")
        self._kv.write(sink, length)

    def read_cache(self, source: Source, length: int) -> None:
        """See ``PortableCache.read_cache``. As if one pass had fed all the tokens."""
        self.rewind(0)
        if length:
            planned = self._book.plan(length, None)
            self._kv.read(source, length)
            self._book.append(planned)

    def nbytes(self) -> dict[str, int]:
        """``weights``: mapped from the bundle; ``kv_cache``: reserved, committed page by page as it fills."""
        return {"weights": self._weight_bytes, "kv_cache": self._kv_bytes}

    def _bound_for(self, shape: tuple[int, int, bool]) -> BoundPass:
        bound = self._bound.get(shape)
        if bound is None:
            bound = BoundPass(self._session, self._kv.array, self._spec, shape, tempered=self._tempered)
            if shape[0] <= _SHORT:
                if len(self._bound) == _MOST_KEPT:
                    self._bound.clear()
                self._bound[shape] = bound
        return bound
