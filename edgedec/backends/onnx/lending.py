"""Slots that sequences of one cache lend each other: a beginning that several have stands once in memory.

Kernels read lent slots where they lie (``kernels/tree_attention/sequences.h``). The owner writes behind them
alone. Before it goes back further, one of the borrowers takes a copy, which the others borrow from then on.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from edgedec.backends.onnx.kv_forward import KvForward
from edgedec.backends.onnx.kv_memory import KvMemory
from edgedec.core.forward import Capabilities, Forward, Sink
from edgedec.core.model_spec import ModelSpec


class LendingForward(KvForward):
    """The cache of sequence ``number``; ``lock`` is held during passes, and while slots change hands."""

    def __init__(
        self, number: int, kv: KvMemory, facts: tuple[ModelSpec, Capabilities, int], lock: threading.RLock
    ) -> None:
        self.number = number
        self._lock = lock
        self._lender: LendingForward | None = None
        self._borrowers: list[LendingForward] = []
        super().__init__(kv, *facts)

    @property
    def begins_in(self) -> int:
        """The sequence in whose part the first slots lie."""
        return self._lender.number if self._lender else self.number

    @property
    def borrowed(self) -> int:
        """Slots that lie in the part of another sequence."""
        return self._kv.borrowed

    def copy_prefix(self, source: Forward, length: int) -> int:
        """See ``Copying.copy_prefix``. Between sequences of one cache slots are lent."""
        with self._lock:
            return super().copy_prefix(source, length)

    def rewind(self, length: int) -> None:
        """See ``Forward.rewind``."""
        with self._lock:
            if 0 <= length <= self.length:
                self._give_away(self.reachable(length))
            super().rewind(length)
            self._borrow(self._lender, min(self.borrowed, self._book.slots))

    def select(self, first: int, end: int, kept: NDArray[np.intp]) -> None:
        """See ``Evicting.select``."""
        with self._lock:
            self._give_away(first)
            self._own()
            super().select(first, end, kept)

    def write_page(self, sink: Sink, first: int, end: int) -> None:
        """See ``Paged.write_page``."""
        lender = self._lender
        super().write_page(sink, first, end)
        if self._lender is not lender:
            raise ValueError(f"the slots {first} to {end} changed their owner meanwhile")

    def write_cache(self, sink: Sink, length: int) -> None:
        """See ``Portable.write_cache``."""
        with self._lock:
            super().write_cache(sink, length)

    def _take(self, source: KvForward, length: int) -> None:
        """Borrow the first slots of ``source``, or those that it borrows; those behind them are copied."""
        if not isinstance(source, LendingForward) or source._lock is not self._lock:
            super()._take(source, length)
            return
        lender = source._lender or source
        lent = min(source.borrowed, length) if source._lender else length
        self._kv.copy_slots(source._kv, lent, length)
        self._borrow(lender, lent)

    def _borrow(self, lender: LendingForward | None, slots: int) -> None:
        """Let the first ``slots`` slots be those of ``lender``."""
        if self._lender is not None and self._lender is not lender:
            self._lender._borrowers.remove(self)
        if lender is None or not slots:
            if self._lender is lender and lender is not None:
                lender._borrowers.remove(self)
            self._lender = None
            self._kv.borrow(None, 0)
            return
        if self._lender is not lender:
            lender._borrowers.append(self)
        self._lender = lender
        self._kv.borrow(lender._kv, slots)

    def _own(self) -> None:
        """Copy what is borrowed into the part of this sequence."""
        if self._lender is not None:
            slots = self.borrowed
            self._kv.copy_slots(self._lender._kv, 0, slots)
            self._borrow(None, 0)

    def _give_away(self, kept: int) -> None:
        """Let nobody borrow a slot behind the first ``kept``."""
        losing = [one for one in self._borrowers if one.borrowed > kept]
        if not losing:
            return
        heir = max(losing, key=lambda one: one.borrowed)
        sizes = {one.number: one.borrowed for one in losing}
        heir._own()
        for one in losing:
            if one is not heir:
                one._borrow(heir, sizes[one.number])


def lengths_of(count: int, passes: Sequence[tuple[LendingForward, int, int]]) -> list[int]:
    """Return the graph's input ``length`` for passes over a cache of ``count`` parts.

    A pass is a sequence, its tokens and the slot of the first; see kernels/common/sequences.h.
    """
    if not any(forward.borrowed for forward, _, _ in passes):
        return [count, *(at for one, tokens, start in passes for at in (tokens, one.number, start))]
    found = [-count]
    for one, tokens, start in passes:
        found += (tokens, one.number, start, one.begins_in, one.borrowed)
    return found
