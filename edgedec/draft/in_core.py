"""Drafters whose logic is the core's: kernels/core/draft."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from ctypes import byref, c_int32, c_int64

import numpy as np

from edgedec.core.rows import FloatArray
from edgedec.core.tree import DraftTree
from edgedec.core_lib.calls import CalledBack
from edgedec.core_lib.draft_room import DraftRoom, ints
from edgedec.core_lib.drafters import DRAFTER
from edgedec.core_lib.library import error_of
from edgedec.core_lib.params import params_struct
from edgedec.draft.drafter import Drafter
from edgedec.draft.trimmed import TrimmedHead
from edgedec.sampling import DrawParams


class CoreDrafter(Drafter):
    """The drafter of the core at ``handle``, which it owns. Raises the errors of the models that it runs.

    ``called``: what the drafter calls back. ``trimmed``: the trimmed head that it was made with. Tokens are
    i32: others raise struct.error.
    """

    def __init__(self, handle: int, *called: CalledBack, trimmed: TrimmedHead | None = None) -> None:
        self.handle, self._called = handle, called
        weakref.finalize(self, DRAFTER.free, handle)
        self._arrays = trimmed.kept.nbytes if trimmed else 0
        self.work = (c_int64 * 4)()
        """Bytes read, passes, bytes of tables so far, and the peeked tokens of the latest draft."""
        self._room = DraftRoom(16)

    def sampled(self, params: DrawParams) -> None:
        """See ``Drafter.sampled``."""
        self._check(DRAFTER.sampled(self.handle, byref(params_struct(params))))

    def begin(self, tokens: Sequence[int], kept: int) -> None:
        self._check(DRAFTER.begin(self.handle, ints(tokens), len(tokens), kept))

    def commit(self, tokens: Sequence[int]) -> None:
        self._check(DRAFTER.commit(self.handle, ints(tokens), len(tokens)))

    def propose(self, limit: int, floor: float = 0.0) -> DraftTree:
        if limit > self._room.most:
            self._room = DraftRoom(limit)
        count = self._worked(DRAFTER.propose(self.handle, limit, floor, *self._room.addresses))
        return self._room.tree(count, self.name)

    def read(self, start: int, hidden: FloatArray) -> None:
        """See ``Drafter.read``. A drafter may read in passes of its own."""
        data = np.ascontiguousarray(hidden, np.float32)
        self._worked(DRAFTER.read(self.handle, start, data.ctypes.data, data.size))

    def ahead(self, tokens: Sequence[int], limit: int) -> list[int]:
        """See ``Drafter.ahead``."""
        found = (c_int32 * max(limit, 1))()
        count = self._worked(DRAFTER.ahead(self.handle, ints(tokens), len(tokens), limit, found))
        return found[:count]

    def nbytes(self) -> int:
        return int(DRAFTER.bytes(self.handle)) + self._arrays

    @property
    def peeked(self) -> int:
        """See ``Drafter.peeked``."""
        return self.work[3]

    @property
    def bytes_read(self) -> int:
        """See ``Drafter.bytes_read``."""
        return self.work[0]

    @property
    def passes(self) -> int:
        """See ``Drafter.passes``."""
        return self.work[1]

    @property
    def table_bytes(self) -> int:
        """See ``Drafter.table_bytes``."""
        return self.work[2]

    def _worked(self, outcome: int) -> int:
        DRAFTER.work(self.handle, self.work)
        return self._check(outcome)

    def _check(self, outcome: int) -> int:
        """Raise the error of a call that returned ``outcome``, if it failed: that of a model first."""
        for one in self._called:
            one.calls.raise_kept()
        if outcome < 0:
            raise error_of(-outcome)
        return outcome
