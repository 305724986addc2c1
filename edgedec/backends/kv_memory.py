"""The memory of a key-value cache: reserved at once, committed by the operating system as it is written."""

from __future__ import annotations

import contextlib
import mmap
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from edgedec.core.errors import BackendError
from edgedec.core.types import ModelSpec
from edgedec.memory import kv_bytes


class KvMemory:
    """fp16 keys and values [layers, 2, kv heads, capacity, head_dim], zero at first, in page-aligned memory.

    Raises BackendError when the address space cannot be had.
    """

    def __init__(self, spec: ModelSpec, capacity: int) -> None:
        size = kv_bytes(spec, capacity)
        try:
            pages = _private_pages(size)
        except (OSError, OverflowError, ValueError) as error:
            message = f"no memory for a context of {capacity} tokens ({size >> 20} MiB)"
            raise BackendError(message, hint="use a smaller context") from error
        if hasattr(mmap, "MADV_NOHUGEPAGE"):
            # A huge page would commit 2 MiB for the first token of every head; kernels without them refuse.
            with contextlib.suppress(OSError):
                pages.madvise(mmap.MADV_NOHUGEPAGE)
        shape = (spec.n_layers, 2, spec.n_kv_heads, capacity, spec.head_dim)
        self.array: NDArray[np.float16] = np.frombuffer(pages, dtype=np.float16).reshape(shape)

    def move(self, sources: Sequence[int], targets: Sequence[int]) -> None:
        """Copy slots ``sources`` to ``targets`` in every layer; all are read before any is written."""
        if sources:
            self.array[:, :, :, targets] = self.array[:, :, :, sources]


def _private_pages(size: int) -> mmap.mmap:
    if hasattr(mmap, "MAP_PRIVATE"):
        return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return mmap.mmap(-1, size)
