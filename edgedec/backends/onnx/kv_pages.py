"""Page-aligned memory for keys and values: reserved at once, committed by the system as it is written."""

from __future__ import annotations

import math
import mmap
from collections.abc import Iterator, Sequence
from copy import copy

import numpy as np
from numpy.typing import NDArray

from edgedec.system.allocator import give_back, private_pages


class KvPages:
    """Keys and values f16[layers, 2, kv heads, rows, row], zero at first; slot s lies in row s modulo rows.

    Raises the error of ``mmap`` when the address space cannot be had.
    """

    def __init__(self, shape: tuple[int, int, int, int, int]) -> None:
        elements = math.prod(shape)
        self._first = 0
        self._pages = private_pages(max(2 * elements, mmap.PAGESIZE))  # a model may have no such layer
        self.array: NDArray[np.float16] = np.frombuffer(self._pages, np.float16, elements).reshape(shape)

    @property
    def rows(self) -> int:
        """Slots held at a time."""
        return int(self.array.shape[3])

    @property
    def slot_bytes(self) -> int:
        """Bytes of one slot in all layers."""
        return self.array.nbytes // self.rows

    def move(self, sources: Sequence[int], targets: Sequence[int]) -> None:
        """Copy slots ``sources`` to ``targets`` in every layer; all are read before any is written."""
        rows = self.rows
        self.array[:, :, :, [to % rows for to in targets]] = self.array[
            :, :, :, [at % rows for at in sources]
        ]

    def copy(self, source: KvPages, first: int, end: int) -> None:
        """Copy the slots [first, end) of ``source``, which has as many rows."""
        row, rows = first % self.rows, self.rows
        last = row + end - first
        runs = [(start, stop) for start, stop in ((row, min(last, rows)), (0, last - rows)) if start < stop]
        # Head by head: NumPy cannot tell that the parts of two sequences never overlap, and would copy twice.
        for head in np.ndindex(self.array.shape[:3]):
            for start, stop in runs:
                self.array[head][start:stop] = source.array[head][start:stop]

    def select(self, first: int, end: int, kept: NDArray[np.intp], slots: int) -> None:
        """Move ``kept``, [layers, kv heads, n], of the rows [first, end) down to ``first``.

        The rows behind ``end``, up to ``slots``, follow them.
        """
        behind = first + kept.shape[2]
        for layer, part, head in np.ndindex(self.array.shape[:3]):
            rows = self.array[layer, part, head]
            rows[first:behind] = rows[kept[layer, head]]
            flat, width = rows.reshape(-1), rows.shape[-1]
            # NumPy moves overlapping runs of a single axis without a copy between.
            flat[behind * width : (behind + slots - end) * width] = flat[end * width : slots * width]

    def part(self, number: int, count: int) -> KvPages:
        """The rows of sequence ``number`` of ``count`` that share the memory evenly."""
        rows = self.rows // count
        mine = copy(self)
        mine._first = self._first + number * rows
        mine.array = self.array[:, :, :, number * rows : (number + 1) * rows]
        return mine

    def give_back(self, first: int) -> None:
        """Return the pages of rows from ``first`` on to the operating system; their contents are undefined.

        A ring that is full up to slot ``first`` has no such row. A page in which the next head, or another
        sequence, begins stays: it belongs to both.
        """
        whole = not first and self.array.flags.c_contiguous
        for start, end in [(0, self.array.nbytes)] if whole else self._runs(first):
            begin = -(-start // mmap.PAGESIZE) * mmap.PAGESIZE
            if (size := end // mmap.PAGESIZE * mmap.PAGESIZE - begin) > 0:
                give_back(self._pages, begin, size)

    def _runs(self, first: int) -> Iterator[tuple[int, int]]:
        """Yield begin and end, in bytes, of the rows from ``first`` on, for each head of keys or values."""
        head, row = (int(step) for step in self.array.strides[2:4])
        for number in range(math.prod(self.array.shape[:3])):
            start = number * head + self._first * row
            yield start + first * row, start + self.rows * row

    def heads(self, first: int, end: int) -> Iterator[list[memoryview]]:
        """Memory of the slots [first, end) of each head of keys or values: one piece, or two in a ring."""
        row = first % self.rows if first < end else 0
        count = end - first
        heads = math.prod(self.array.shape[:3])
        for head in self.array.reshape(heads, *self.array.shape[3:]):
            parts = (head[row : row + count], head[: max(row + count - self.rows, 0)])
            yield [part.reshape(-1).view(np.uint8).data for part in parts if len(part)]
