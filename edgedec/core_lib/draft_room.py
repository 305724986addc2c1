"""Arrays of whole numbers for the core, and the memory that it writes a draft to."""

from __future__ import annotations

from collections.abc import Collection
from ctypes import addressof, c_double, c_int32
from struct import pack, unpack_from

from edgedec.core.tree import EMPTY, DraftTree


class DraftRoom:
    """Memory for a draft of at most ``tokens`` tokens, which the core writes at ``addresses``."""

    def __init__(self, tokens: int) -> None:
        self.most = tokens
        self._tokens, self._parents = (c_int32 * tokens)(), (c_int32 * tokens)()
        self._probs = (c_double * tokens)()
        self.addresses = addressof(self._tokens), addressof(self._parents), addressof(self._probs)

    def tree(self, count: int, source: str) -> DraftTree:
        """Return the first ``count`` tokens as a draft."""
        if not count:
            return EMPTY
        ints = f"{count}i"
        return DraftTree(
            unpack_from(ints, self._tokens),
            unpack_from(ints, self._parents),
            unpack_from(f"{count}d", self._probs),
            (source,) * count,
        )


def ints(values: Collection[int]) -> bytes:
    """Return i32 as the core takes them. Raises struct.error for others."""
    return pack(f"{len(values)}i", *values)
