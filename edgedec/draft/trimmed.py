"""The ids that a drafter's head computes, and when it computes all: kernels/core/draft/trimmed_head.h."""

from __future__ import annotations

import weakref
from ctypes import byref, c_int64
from typing import Self

import numpy as np

from edgedec.core.rows import Keep
from edgedec.core_lib.binding import INT, LONG, POINTER, REAL, Functions

_IN_USE = 3
"""Arrays of shared ids at once: the latest one, that of a pass, and that of requests for the next."""
_CORE = Functions(
    "edgedec_core_trimmed_",
    new=(POINTER, POINTER, LONG, REAL, REAL),
    again=(POINTER, POINTER, INT),
    beside=(POINTER, POINTER),
    free=(None, POINTER),
    bytes=(LONG, POINTER),
    most=(LONG, POINTER),
    keep=(POINTER, POINTER, POINTER, POINTER),
)


class KeptArrays:
    """The ids of heads that are trimmed to the same ones, in arrays for passes: at most ``most``.

    ``shared``: by conversations whose passes are computed together. Then an array that was handed out stays
    as it is. Others are in one place, since passes of many shapes hold on to what they kept.
    """

    def __init__(self, most: int, *, shared: bool) -> None:
        self.nbytes = 8 * most * (_IN_USE if shared else 1)
        self._room: Keep = np.empty(0 if shared else most, np.int64)
        self._version = -1
        self._ids = self._room

    def of(self, address: int, count: int, version: int) -> Keep:
        """Return the ids of a version, which the core has at ``address``."""
        if version != self._version:
            ids = np.ctypeslib.as_array((c_int64 * count).from_address(address))
            if self._room.size:
                self._ids = self._room[:count]
                self._ids[:] = ids
            else:
                self._ids = ids.copy()
            self._version = version
        return self._ids


class TrimmedHead:
    """The ids that a head is trimmed to (ascending), and whether it is now.

    ``bound``: the rate of tokens outside of them above which the full head drafts. ``saved``: the part of a
    pass's bytes that the trimmed head leaves unread, 0 to 1. Drafters of one text may share it.
    """

    def __init__(self, ids: Keep, bound: float, saved: float = 0.0) -> None:
        handle = _CORE.new(np.ascontiguousarray(ids, np.int64).tobytes(), ids.size, bound, saved)
        self._take(handle, saved, KeptArrays(_CORE.most(handle), shared=False))

    def again(self, *, shared: bool = False) -> Self:
        """Return one of the same ids that has followed no text; ``shared``: for several conversations."""
        made = self.__new__(type(self))
        handle = _CORE.again(self.handle, shared)
        made._take(handle, self.saved, KeptArrays(_CORE.most(handle), shared=shared))
        return made

    def beside(self) -> Self:
        """Return one for another conversation, with which this one shares its ids."""
        made = self.__new__(type(self))
        made._take(_CORE.beside(self.handle), self.saved, self.kept)
        return made

    @property
    def keep(self) -> Keep | None:
        """Keep that the next draft is made of; None for all."""
        count, version = c_int64(), c_int64()
        address = _CORE.keep(self.handle, byref(count), byref(version))
        return self.kept.of(address, count.value, version.value) if count.value else None

    def nbytes(self) -> int:
        """Return the bytes of the ids, in the core and in arrays for passes."""
        return int(_CORE.bytes(self.handle)) + self.kept.nbytes

    def _take(self, handle: int, saved: float, kept: KeptArrays) -> None:
        self.handle, self.saved, self.kept = handle, saved, kept
        weakref.finalize(self, _CORE.free, handle)
