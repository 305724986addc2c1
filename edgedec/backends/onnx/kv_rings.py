"""Rings: keys and values of the newest tokens, of layers that see only a window."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy

import numpy as np
from numpy.typing import NDArray

from edgedec.backends.onnx.kv_pages import KvPages
from edgedec.core.errors import BadFileError
from edgedec.core.forward import Sink, Source

_OLDEST = 8
"""Bytes in which a file says which slot is the oldest of its rings."""


class KvRings:
    """The ``pages`` of rings, of which at most ``kept`` slots are written to a file."""

    def __init__(self, pages: KvPages, kept: int) -> None:
        self.pages = pages
        self.kept = kept

    def part(self, number: int, count: int) -> KvRings:
        """The slots of sequence ``number`` of ``count`` that share the memory evenly."""
        mine = copy(self)
        mine.pages = self.pages.part(number, count)
        return mine

    def copy(self, source: KvRings, oldest: int, end: int) -> None:
        """Copy the newest slots of ``source`` before ``end``, from ``oldest`` on."""
        self.pages.copy(source.pages, max(oldest, end - self.pages.rows), end)

    def nbytes(self, slots: int) -> int:
        """Bytes of ``slots`` slots, as written."""
        return _OLDEST + self.pages.slot_bytes * min(slots, self.kept) if slots else 0

    def write(self, sink: Sink, slots: int, oldest: int) -> None:
        """Write the newest of the first ``slots`` slots; those before ``oldest`` are lost, and zeros."""
        first = max(slots - self.kept, oldest, 0)
        self._write(sink, slots, first, self.pages.heads(first, slots))

    def write_copy(self, sink: Sink, slots: int, copied: NDArray[np.float16], oldest: int) -> None:
        """Write the same of a copy that ``taken`` made, whose first slot is ``oldest``."""
        heads = (head[: slots - oldest].reshape(-1).view(np.uint8).data for head in copied)
        self._write(sink, slots, oldest, ([head] for head in heads))

    def _write(self, sink: Sink, slots: int, first: int, heads: Iterable[Sequence[memoryview]]) -> None:
        lost = first - max(slots - self.kept, 0)
        nothing = bytes(lost * self.pages.array.shape[4] * 2)
        sink.write(memoryview(first.to_bytes(_OLDEST, "little")))
        for pieces in heads:
            for piece in (memoryview(nothing), *pieces):
                sink.write(piece)

    def taken(self, first: int, end: int) -> NDArray[np.float16]:
        """Return a copy of the slots [first, end), f16[heads of keys or values, slots, row]."""
        rows = np.arange(first, end) % self.pages.rows
        found: NDArray[np.float16] = self.pages.array.take(rows, axis=3)
        return found.reshape(-1, end - first, self.pages.array.shape[4])

    def put(self, copied: NDArray[np.float16], first: int, end: int) -> None:
        """Fill the slots [first, end) from such a copy."""
        array = self.pages.array
        rows = np.arange(first, end) % self.pages.rows
        array[:, :, :, rows] = copied[:, : end - first].reshape(*array.shape[:3], end - first, array.shape[4])

    def read(self, source: Source, slots: int) -> int:
        """Fill the newest of the first ``slots`` slots, and return the oldest that the file has.

        Raises EOFError when ``source`` ends early, BadFileError when that slot cannot be the oldest.
        """
        said = bytearray(_OLDEST)
        fill(source, [memoryview(said)], slots)
        oldest, first = int.from_bytes(said, "little"), max(slots - self.kept, 0)
        if not first <= oldest <= slots:
            raise BadFileError(f"a saved cache of {slots} tokens cannot begin with token {oldest}")
        for pieces in self.pages.heads(first, slots):
            fill(source, pieces, slots)
        return oldest


def fill(source: Source, pieces: Sequence[memoryview], slots: int) -> None:
    """Read all ``pieces`` of a cache of ``slots`` tokens. Raises EOFError when ``source`` ends early."""
    for piece in pieces:
        if source.readinto(piece) != len(piece):
            raise EOFError(f"the slots of {slots} tokens are not all there")
