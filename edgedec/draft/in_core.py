"""Drafters whose logic is the core's: kernels/core/draft."""

from __future__ import annotations

from collections.abc import Sequence

from edgedec.core.rows import FloatArray
from edgedec.core.tree import DraftTree
from edgedec.core_lib.drafters import DrafterHandle
from edgedec.draft.drafter import Drafter
from edgedec.draft.trimmed import TrimmedHead
from edgedec.sampling import DrawParams


class CoreDrafter(Drafter):
    """Hands each call on to ``handle``. Errors of the models that it runs come out of the calls.

    ``trimmed``: the trimmed head that the handle was made with.
    """

    def __init__(self, handle: DrafterHandle, trimmed: TrimmedHead | None = None) -> None:
        self.handle = handle
        self._arrays = trimmed.kept.nbytes if trimmed else 0
        self._work = handle.work

    def sampled(self, params: DrawParams) -> None:
        """See ``Drafter.sampled``."""
        self.handle.sampled(params)

    def begin(self, tokens: Sequence[int], kept: int) -> None:
        self.handle.begin(tokens, kept)

    def commit(self, tokens: Sequence[int]) -> None:
        self.handle.commit(tokens)

    def propose(self, limit: int, floor: float = 0.0) -> DraftTree:
        return self.handle.propose(limit, floor)

    def read(self, start: int, hidden: FloatArray) -> None:
        """See ``Drafter.read``."""
        self.handle.read(start, hidden)

    @property
    def peeked(self) -> int:
        """See ``Drafter.peeked``."""
        return self._work[3]

    def nbytes(self) -> int:
        return self.handle.nbytes() + self._arrays

    @property
    def bytes_read(self) -> int:
        """See ``Drafter.bytes_read``."""
        return self._work[0]

    @property
    def passes(self) -> int:
        """See ``Drafter.passes``."""
        return self._work[1]

    @property
    def table_bytes(self) -> int:
        """See ``Drafter.table_bytes``."""
        return self._work[2]
