"""A book and the memory that it is about: what is done with a cache besides computing into it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from edgedec.backends.cache_forward import Booked
from edgedec.backends.checks import check_kept
from edgedec.backends.onnx.kv_memory import KvMemory
from edgedec.core.errors import BadFileError
from edgedec.core.forward import Capabilities, Sink, Source
from edgedec.core.model_spec import ModelSpec
from edgedec.memory import CacheBook, Pass


class Cached(Booked):
    """The part of ``Forward`` and ``PortableCache`` that needs ``KvMemory`` alone."""

    def __init__(self, spec: ModelSpec, caps: Capabilities, kv: KvMemory) -> None:
        super().__init__(spec, caps, kv.capacity)
        self._hold(kv)

    def _hold(self, kv: KvMemory) -> None:
        """Begin with an empty cache."""
        self._book = CacheBook(kv.capacity, window=self._spec.window, ring=kv.ring)
        self._kv = kv
        self._reached = 0

    def _plan(self, tokens: int, parents: Sequence[int] | None) -> Pass:
        """See ``CacheBook.plan``. Raises MemoryBudgetError too."""
        planned = self._book.plan(tokens, parents)
        self._kv.use()
        return planned

    def rewind(self, length: int) -> None:
        """See ``Forward.rewind``. What a long way back frees goes to the operating system."""
        self._reached = max(self._reached, self._book.slots)
        super().rewind(length)
        if self._kv.release(self._book.slots, self._reached):
            self._reached = self._book.slots

    def evict(self, first: int, count: int) -> None:
        """See ``Evicting.evict``."""
        heads = self._spec.n_layers, self._spec.n_kv_heads
        self.select(first, first + count, np.empty((*heads, 0), np.intp))

    def select(self, first: int, end: int, kept: NDArray[np.intp]) -> None:
        """See ``Selecting.select``."""
        check_kept(self._spec, first, end, kept)
        slots = self._book.slots
        self._book.evict(first, end, kept.shape[2])
        self._reached = max(self._reached, slots)
        self._kv.select(first, end, kept, slots)

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
        held = 0 <= length <= self.length and self.reachable(length) == length
        if not self._book.settled or self.evicted or not held:
            raise ValueError(f"cannot write {length} tokens: the cache does not hold them, or an open tree")
        self._kv.write(sink, length, self._book.oldest)

    def read_cache(self, source: Source, length: int) -> None:
        """See ``PortableCache.read_cache``. As if one pass had fed all the tokens."""
        self.rewind(0)
        if length:
            planned = self._plan(length, None)
            self._book.lose(self._kv.read(source, length))
            self._book.append(planned)
            if self.reachable(length) != length:
                self.rewind(0)
                raise BadFileError(f"a saved cache of {length} tokens lacks some that the next one sees")
