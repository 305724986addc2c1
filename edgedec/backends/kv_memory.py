"""The memory of a key-value cache: reserved at once, committed by the operating system as it is written."""

from __future__ import annotations

import contextlib
import mmap
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from edgedec.core.errors import BackendError
from edgedec.core.types import ModelSpec, Sink, Source
from edgedec.memory import KvType, kv_bytes, kv_row_bytes

_WORTHWHILE_BYTES = 1 << 20
_WORTHWHILE_SLOTS = 64
"""Fewer are what checking drafts takes back: a page or two per head, which the next pass writes again."""


class KvMemory:
    """Keys and values f16[layers, 2, kv heads, capacity, row], zero at first, in page-aligned memory.

    A row is head_dim fp16 numbers, or, with ``kv`` "int8", head_dim bytes and their scales (see
    ``kv_row_bytes``). Raises BackendError when the address space cannot be had.
    """

    def __init__(self, spec: ModelSpec, capacity: int, kv: KvType = "fp16") -> None:
        size = kv_bytes(spec, capacity, kv)
        try:
            pages = _private_pages(size)
        except (OSError, OverflowError, ValueError) as error:
            message = f"no memory for a context of {capacity} tokens ({size >> 20} MiB)"
            raise BackendError(message, hint="use a smaller context") from error
        if hasattr(mmap, "MADV_NOHUGEPAGE"):
            # A huge page would commit 2 MiB for the first token of every head; kernels without them refuse.
            with contextlib.suppress(OSError):
                pages.madvise(mmap.MADV_NOHUGEPAGE)
        shape = (spec.n_layers, 2, spec.n_kv_heads, capacity, kv_row_bytes(spec.head_dim, kv) // 2)
        self._kv = kv
        self._pages = pages
        self.array: NDArray[np.float16] = np.frombuffer(pages, dtype=np.float16).reshape(shape)

    def move(self, sources: Sequence[int], targets: Sequence[int]) -> None:
        """Copy slots ``sources`` to ``targets`` in every layer; all are read before any is written."""
        if sources:
            self.array[:, :, :, targets] = self.array[:, :, :, sources]

    def close(self, first: int, count: int, slots: int) -> None:
        """Move the slots behind [first, first + count), up to ``slots``, down to ``first``, in place."""
        for head in np.ndindex(self.array.shape[:3]):
            rows = self.array[head]
            flat, width = rows.reshape(-1), rows.shape[-1]
            # NumPy moves overlapping runs of a single axis without a copy between.
            flat[first * width : (slots - count) * width] = flat[(first + count) * width : slots * width]

    def release(self, length: int, reached: int) -> bool:
        """Give the pages behind the first ``length`` slots back to the operating system, where it takes them
        and slots up to ``reached`` are worth it; whether it was done. The slots given back hold anything.
        """
        slots, bytes_each = reached - length, self.array.nbytes // self.array.shape[3]
        if slots <= _WORTHWHILE_SLOTS or slots * bytes_each < _WORTHWHILE_BYTES:
            return False
        if not hasattr(mmap, "MADV_DONTNEED"):
            return False
        head, slot = (int(step) for step in self.array.strides[2:4])
        for start in range(0, self.array.nbytes, head) if length else (0,):
            first = -(-(start + length * slot) // mmap.PAGESIZE) * mmap.PAGESIZE
            end = start + head if length else self.array.nbytes
            # The page in which the next head begins is that one's too.
            if (size := end // mmap.PAGESIZE * mmap.PAGESIZE - first) > 0:
                self._pages.madvise(mmap.MADV_DONTNEED, first, size)
        return True

    @property
    def layout(self) -> str:
        """How it is kept, layers, keys and values, heads, bytes of a row: ``fp16 30x2x3x128``."""
        layers, parts, heads, _, width = self.array.shape
        return f"{self._kv} {layers}x{parts}x{heads}x{width * self.array.itemsize}"

    def nbytes(self, slots: int) -> int:
        """Bytes of ``slots`` slots."""
        capacity: int = self.array.shape[-2]
        return self.array.nbytes // capacity * slots

    def write(self, sink: Sink, slots: int) -> None:
        """Write the first ``slots`` slots, from where they lie: nothing is copied."""
        for piece in self._pieces(slots):
            sink.write(piece)

    def read(self, source: Source, slots: int) -> None:
        """Fill the first ``slots`` slots. Raises EOFError when there is not as much."""
        for piece in self._pieces(slots):
            if source.readinto(piece) != len(piece):
                raise EOFError(f"the slots of {slots} tokens are not all there")

    def _pieces(self, slots: int) -> Iterator[memoryview]:
        """The memory of the first slots: a run of bytes for each head of keys or values."""
        if slots:
            for head in self.array.reshape(-1, *self.array.shape[-2:]):
                yield head[:slots].reshape(-1).view(np.uint8).data


def _private_pages(size: int) -> mmap.mmap:
    if hasattr(mmap, "MAP_PRIVATE"):
        return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return mmap.mmap(-1, size)
