"""A KV cache in ``KvMemory``: everything that a forward does with it besides computing into it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from edgedec.backends.checks import check_kept
from edgedec.backends.kv_states import KvStates
from edgedec.backends.onnx.kv_memory import KvMemory
from edgedec.backends.onnx.paged_cache import PagedCache
from edgedec.core.forward import Capabilities, Copying, Evicting, Forward, Sink, Source
from edgedec.core.model_spec import ModelSpec
from edgedec.core.rows import Parents
from edgedec.memory import CacheBook, PlannedPass, ring_keys, whole_keys

_WINDOWED = ("gemma2", "gemma3", "phi3")
"""Architectures with layers that see only the newest tokens: after an eviction they would see others."""


class KvForward(PagedCache, Evicting, Copying):
    """The part of ``Forward`` that needs only ``kv``: all but ``extend``."""

    def __init__(self, kv: KvMemory, spec: ModelSpec, caps: Capabilities, weight_bytes: int) -> None:
        states = KvStates(kv.states, kv.ledger) if kv.states else None
        rings = ring_keys(spec)
        window, stated = rings.window if rings else 0, states.book if states else None
        book = CacheBook(kv.capacity, window=window, ring=kv.ring, states=stated)
        super().__init__(spec, caps, book, kv.ledger, states)
        self._kv = kv
        self._copies = None
        if kv.rings and kv.ring < kv.capacity and not states:
            from edgedec.backends.onnx.ring_snapshots import RingSnapshots

            self._copies = RingSnapshots(kv.rings, book, window, kv.ledger)
        self._weight_bytes = weight_bytes
        self._reached = 0
        self._evicts = not (spec.architecture in _WINDOWED or rings or spec.states)
        """Whether tokens can leave the midst of the cache; asked at every pass."""

    def _plan(self, tokens: int, parents: Parents) -> PlannedPass:
        """See ``CacheBook.plan``. Raises MemoryBudgetError too."""
        if self._copies:
            self._copies.save(tokens)
        planned = self._book.plan(tokens, parents)
        if not planned.start:  # memory is given back where no slot is left
            self._kv.use()
        return planned

    def computed(self, planned: PlannedPass) -> None:
        """Record ``planned``, which was computed; for a model without recurrent states."""
        self._book.append(planned)

    def rewind(self, length: int) -> None:
        """See ``Forward.rewind``. A long way back returns memory to the operating system."""
        self._reached = max(self._reached, self._book.slots)
        if self._copies and 0 <= length <= self.length:
            kept = self.reachable(length)
            if kept > self._book.reachable(length):
                self._copies.recall(length := kept)
        super().rewind(length)
        if self._copies:
            self._copies.forget(self.length)
        if self._kv.release(self._book.slots, self._reached):
            self._reached = self._book.slots

    def reachable(self, length: int) -> int:
        """See ``Forward.reachable``."""
        found = super().reachable(length)
        if self._copies and found < length and (kept := self._copies.before(length)) > found:
            return kept if self._book.in_order(kept) else found
        return found

    def expect(self, places: Callable[[], Iterable[int]]) -> None:
        """See ``Forward.expect``."""
        if self._copies:
            self._copies.expect(places())

    @property
    def evicting(self) -> Evicting | None:
        return self if self._evicts else None

    @property
    def lent(self) -> Mapping[str, NDArray[np.float16]] | None:
        """See ``Forward.lent``."""
        return self._kv.arrays

    def evict(self, first: int, count: int) -> None:
        """See ``Evicting.evict``."""
        keys = whole_keys(self.spec)
        self.select(first, first + count, np.empty((keys.layers, keys.kv_heads, 0), np.intp))

    def select(self, first: int, end: int, kept: NDArray[np.intp]) -> None:
        """See ``Evicting.select``."""
        check_kept(self.spec, first, end, kept)
        slots = self._book.slots
        self._book.evict(first, end, kept.shape[2])
        self._reached = max(self._reached, slots)
        self._kv.select(first, end, kept, slots)

    def keep_path(self, nodes: Sequence[int]) -> None:
        """See ``Forward.keep_path``. A path that begins the pass copies nothing."""
        self._kv.move(*self._book.keep(nodes))

    def copy_prefix(self, source: Forward, length: int) -> int:
        """See ``Copying.copy_prefix``."""
        if not isinstance(source, KvForward) or source is self or not self._alike(source):
            raise ValueError("tokens are copied from another cache of the same model and format only")
        self.rewind(0)
        try:
            return self._copied(source, length)
        except BaseException:
            self.rewind(0)
            raise

    def _copied(self, source: KvForward, length: int) -> int:
        if self._states and source._states:
            length = self._states.copy(source._states, length)
        if length and source._copies and not source._book.holds(length):
            return self._from_snapshot(source, source._copies.before(length))
        if not length or not source._book.holds(length):
            self.rewind(0)
            return 0
        planned = self._plan(length, None)
        self._take(source, length)
        self._kv.copy_rings(source._kv, source._book.oldest, length)
        # A pass of the source books the slots that it overwrites as lost before it begins.
        self._book.lose(source._book.oldest)
        self._book.fill(planned)
        if not source._book.holds(length):
            self.rewind(0)
        return self.length

    def _take(self, source: KvForward, length: int) -> None:
        """Take the first slots of ``source``, without rings."""
        self._kv.copy_slots(source._kv, 0, length)

    def _from_snapshot(self, source: KvForward, length: int) -> int:
        """Begin with the tokens of a snapshot of rings, which nothing overwrites."""
        found = source._copies.at(length) if source._copies and length else None
        if found is None or not self._kv.rings or not source._book.in_order(length):
            return 0
        planned = self._plan(length, None)
        self._take(source, length)
        self._kv.rings.put(found.arrays[0], found.oldest, length)
        self._book.lose(found.oldest)
        self._book.fill(planned)
        return self.length

    @property
    def cache_layout(self) -> str:
        """See ``Portable.cache_layout``."""
        return self._kv.layout

    def cache_bytes(self, length: int) -> int:
        """See ``Portable.cache_bytes``."""
        return self._kv.nbytes(length)

    def write_cache(self, sink: Sink, length: int) -> None:
        """See ``Portable.write_cache``."""
        self._check_held(length)
        self._kv.write_page(sink, 0, length)
        if length and self._kv.ring:
            self._write_rings(sink, length)
        if self._states and length:
            self._states.write(sink, length)

    def read_cache(self, source: Source, length: int) -> None:
        """See ``Portable.read_cache``. As if one pass had fed all the tokens."""
        self.rewind(0)
        if not length:
            return
        planned = self._plan(length, None)
        try:
            self._book.lose(self._kv.read(source, length))
            if self._states:
                self._states.read(source, length)
        except BaseException:
            self.rewind(0)
            raise
        self._book.fill(planned)
        self._check_read(length)

    def _alike(self, other: KvForward) -> bool:
        return self.spec == other.spec and self._kv.alike(other._kv)

    def nbytes(self) -> dict[str, int]:
        """``weights``: mapped, shared by all forwards of the model; ``kv_cache``: reserved by this one, and
        committed page by page as it fills; ``state``: of recurrent layers.
        """
        held = {"weights": self._weight_bytes, "kv_cache": self._kv.reserved}
        return held | ({"state": self._kv.states.nbytes} if self._kv.states else {})
