"""Token recycling: propose the tokens that the target found probable the last time in this context.

After Luo et al. 2024; kernels/core/tables/recycling.h says how.
"""

from __future__ import annotations

from struct import pack, unpack_from
from typing import Self

import numpy as np

from edgedec.draft.native import NativeDrafter

_WIDTH = 4
"""Answers to a context."""
_HEADER = "=2I"
"""Saved form: bits of a place and width; then tags u32, tokens i32, levels u8 and marks u8 of all places."""
_HEADER_BYTES, _PLACE_BYTES = 8, 4 + 5 * _WIDTH + 1
_MOST_BITS = 40


class Recycling(NativeDrafter):
    """Drafts successors of successors from at most ``memory`` bytes of the target's answers."""

    name = "recycling"
    useful_bytes = 1 << 21
    _wrong = (
        "not the answers of a table of this size",
        "answers outside the vocabulary",
        "answers more probable than certain",
    )

    def __init__(self, *, memory: int = 1 << 21) -> None:
        super().__init__(memory)

    @classmethod
    def within(cls, nbytes: int) -> Self:
        return cls(memory=nbytes)

    def restore(self, data: bytes, vocab_size: int) -> None:
        """Take over what was ``saved``, also by a larger table: of answers in one place the surest stay."""
        places = self._library.edgedec_draft_saved_size(self._handle) // _PLACE_BYTES
        super().restore(_shrunk(data, places), vocab_size)


def _shrunk(data: bytes, places: int) -> bytes:
    """Return what a table with fewer places would have saved; other bytes as they are.

    A place is the first bits of a context's hash, so ``per`` neighbours share one in a smaller table.
    """
    bits, width = unpack_from(_HEADER, data) if len(data) >= _HEADER_BYTES else (0, 0)
    if width != _WIDTH or bits > _MOST_BITS or len(data) != _HEADER_BYTES + (_PLACE_BYTES << bits):
        return data
    per = (1 << bits) // places
    if per < 2:
        return data
    tags = np.frombuffer(data, np.uint32, 1 << bits, _HEADER_BYTES)
    tokens = np.frombuffer(data, np.int32, _WIDTH << bits, _HEADER_BYTES + (4 << bits)).reshape(-1, _WIDTH)
    rest = np.frombuffer(data, np.uint8, offset=_HEADER_BYTES + (4 + 4 * _WIDTH << bits))
    levels, marks = rest[: _WIDTH << bits].reshape(-1, _WIDTH), rest[_WIDTH << bits :]
    surety = np.where(tags != 0, 1 + levels[:, 0], 0).reshape(places, per)
    kept = surety.argmax(axis=1) + per * np.arange(places)
    header = pack(_HEADER, places.bit_length() - 1, width)
    return b"".join((header, *(part[kept].tobytes() for part in (tags, tokens, levels, marks))))
