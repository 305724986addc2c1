"""Calls the host's end of HeadTopK: ``head_topk/finish.cc``."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

import numpy as np

from edgedec.kernels import library
from tests.kernels.float_rows import F32, Array, pointer

BLOCK = 1024
"""Entries of the vocabulary that have a sum of their own."""


@dataclass(frozen=True, slots=True)
class HeadShape:
    """The vocabulary's entries, how many candidates a row has, and how logits are scaled.

    ``kept``: entries of a trimmed head; 0: of the whole one.
    """

    rows: int
    k: int
    softcap: float = 0.0
    temperature: float = 1.0
    kept: int = 0

    @property
    def entries(self) -> int:
        """Entries that take part."""
        return self.kept or self.rows


def blocks(rows: int) -> int:
    """Number of block sums of a row of logits."""
    return -(-rows // BLOCK)


def finish(
    shape: HeadShape, sums: F32, candidates: Array, fine: F32 | None = None, logits: F32 | None = None
) -> dict[str, Array] | None:
    """Results of HeadTopK; None when the library refuses the arguments. ``logits`` are refined in place."""
    r, k = len(sums), shape.k
    assert sums.shape == (r, blocks(shape.entries), 3)
    found = {
        "values": np.empty((r, k), np.float32),
        "ids": np.empty((r, k), np.int32),
        "logsumexp": np.empty(r, np.float32),
        "entropy": np.empty(r, np.float32),
    }
    status = library.load().edgedec_head_finish(
        library.isa().encode(),
        pointer(sums),
        pointer(candidates),
        pointer(fine),
        r,
        shape.rows,
        shape.entries,
        k,
        ctypes.c_float(shape.softcap),
        ctypes.c_float(shape.temperature),
        *(pointer(one) for one in found.values()),
        pointer(logits),
    )
    assert status in (0, 2)
    return found if status == 0 else None
