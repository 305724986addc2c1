"""Experts on a disk: the store that reads them into slots, and a graph whose ops take them from it."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Collection
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edgedec.bundle.manifest import WEIGHTS, Manifest
from edgedec.core.errors import BackendError, BadFileError
from edgedec.core.experts import Experts, StoreCounts
from edgedec.kernels import library
from edgedec.memory.expert_room import expert_room
from edgedec.system.memory import Mapping, available_bytes

_AGAIN = "pull or export the model again"
_LANES = 4
"""Reads at once: disks and flash are full with two to four."""


class ExpertStore:
    """Slots for the experts in the file ``weights``; at first the fewest.

    ``direct``: reads go past the system's cache, where the file system can. Raises BackendError.
    """

    def __init__(self, weights: Path, experts: Experts, *, direct: bool) -> None:
        self.experts, self.direct = experts, direct
        self._library = library.load()
        opened = self._library.edgedec_open_store
        opened.restype = ctypes.c_int64
        error = ctypes.c_int()
        sizes = ctypes.c_size_t(experts.slot_bytes), ctypes.c_size_t(experts.total)
        self.number = int(opened(os.fsencode(weights), *sizes, _LANES, int(direct), ctypes.byref(error)))
        if not self.number:
            raise BackendError(f"no store for the experts in {weights}: {os.strerror(error.value)}")
        from edgedec.backends.onnx.stoppable import Stoppable  # imports pools of threads

        self.passes = Stoppable(partial(_interrupt, self._library, self.number))
        """Passes that read from it are computed by this."""
        self.least = experts.least
        self.slots, self.most, self._traced = 0, experts.total, 0
        self.limit(self.least)

    def limit(self, slots: int) -> None:
        """Keep at most so many experts in memory, from now on."""
        self.slots = min(max(slots, self.least), self.most)
        self._library.edgedec_limit_store(ctypes.c_int64(self.number), ctypes.c_size_t(self.slots))

    def counts(self) -> StoreCounts:
        found = (ctypes.c_uint64 * 4)()
        self._library.edgedec_store_counts(ctypes.c_int64(self.number), found)
        held, hits, nbytes, waited = found
        return StoreCounts(held, hits, nbytes, waited / 1e9)

    def trace(self, numbers: int) -> None:
        """Note which experts passes hold from now on, as long as these are at most so many numbers."""
        self._traced = numbers
        self._library.edgedec_trace_store(ctypes.c_int64(self.number), ctypes.c_size_t(numbers))

    def traced(self) -> list[NDArray[np.int64]]:
        """Return the experts that each part of a pass held, ascending; they are numbered across layers."""
        found = np.empty(self._traced, dtype=np.int32)
        copy = self._library.edgedec_store_trace
        copy.restype = ctypes.c_size_t
        numbers = found.ctypes.data_as(ctypes.POINTER(ctypes.c_int))
        found = found[: copy(ctypes.c_int64(self.number), numbers, ctypes.c_size_t(self._traced))]
        out, at = [], 0
        while at < len(found):
            end = at + 1 + int(found[at])
            out.append(np.sort(found[at + 1 : end]).astype(np.int64))
            at = end
        return out

    def close(self) -> None:
        """Give the memory back. No session may be open over it."""
        if self.number:
            self._library.edgedec_close_store(ctypes.c_int64(self.number))
            self.number = 0

    def __del__(self) -> None:
        self.close()


def _interrupt(kernels: ctypes.CDLL, number: int, now: bool) -> None:
    """End passes that wait for experts, and those that begin before this is called with False."""
    kernels.edgedec_interrupt_store(ctypes.c_int64(number), int(now))


def from_store(model: bytes, store: int) -> bytes:
    """Return the graph with its experts taken from a store, by its number, and not mapped.

    Those that compute every token stay as they are (``kernels/experts/with_store.h``). Raises BadFileError
    for bytes that are no model.
    """
    found = library.with_store(model, store)
    if found is None:
        raise BadFileError("the graph of the bundle is broken: it is no ONNX model", hint=_AGAIN)
    return found


def keep_dense(weights: Path, before: Collection[Mapping], table_bytes: int, *, short: bool) -> None:
    """Make what is mapped of ``weights`` this process's own memory, but for the first ``table_bytes``.

    Mappings of ``before`` belong to other models, which may end at any time. ``short``: memory is, so the
    system's cache needs no copy of them (``kernels/engine/memory/own_pages.h``). Raises BackendError where
    the file cannot be read.
    """
    spans = [number for one in before for number in (one.start, one.end, one.offset)]
    given = (ctypes.c_uint64 * len(spans))(*spans), ctypes.c_size_t(len(before))
    path, table = os.fsencode(weights), ctypes.c_uint64(table_bytes)
    if error := library.load().edgedec_make_own(path, *given, table, int(short), 0):
        raise BackendError(f"the weights cannot be read into memory: {os.strerror(error)}")


def experts_on_disk(
    weights: Path, manifest: Manifest, memory: int | None, beside: int = 0
) -> ExpertStore | None:
    """Return a store for the experts in ``weights`` where there is no room for all of them.

    ``memory``: bytes that the process may take; None: those that the machine has left. Then the store has
    slots for what is left of those, else the fewest: a memory plan says how many. ``beside``: bytes of either
    that weights of drafters need. None for a model without experts, or with room.
    """
    experts = manifest.spec.experts
    if experts is None:
        return None
    total = manifest.files[WEIGHTS].bytes
    if total < experts.nbytes:
        raise BadFileError(
            f"{manifest.name} has experts of {experts.nbytes} bytes, and {WEIGHTS} only {total}",
            hint=_AGAIN,
        )
    room = expert_room(experts, total, memory, available_bytes(), beside)
    if room is None:
        return None
    store = ExpertStore(weights, experts, direct=room.direct)
    store.most = room.most
    store.limit(room.slots)
    return store
