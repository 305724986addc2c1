"""The parts of HeadTopK that a GPU computes, in NumPy over the library's exponential."""

from __future__ import annotations

import numpy as np

from tests.kernels.float_rows import F32, Array, call
from tests.kernels.head_finish import BLOCK, blocks

LANES = 16


def exponentials(x: F32) -> F32:
    """The polynomial of the scalar row."""
    out = np.empty_like(x)
    assert call("edgedec_math_map", "scalar", b"exp", np.ascontiguousarray(x), out, x.size) == 0
    return out


def folded(lanes: F32) -> F32:
    """Sixteen lanes [16, ...] to one."""
    while len(lanes) > 1:
        half = len(lanes) // 2
        lanes = lanes[:half] + lanes[half:]
    return lanes[0]


def block_sums(logits: F32, temperature: float = 1.0) -> F32:
    """[r, blocks, 3] of logits [r, rows]: greatest, sum of exp, weighted sum."""
    r, rows = logits.shape
    padded = np.full((r, blocks(rows) * BLOCK), np.float32(-np.inf))
    padded[:, :rows] = logits
    by_block = padded.reshape(r, -1, BLOCK)
    top = by_block.max(axis=2)
    with np.errstate(over="ignore"):
        d = np.maximum(
            np.float32(-1e30), (by_block - top[..., None]) * (np.float32(1) / np.float32(temperature))
        )
    e = exponentials(d)
    total = np.zeros((LANES, r, by_block.shape[1]), np.float32)
    weighted = total.copy()
    for j in range(0, BLOCK, LANES):
        x, y = (np.moveaxis(part[..., j : j + LANES], 2, 0) for part in (e, d))
        total = total + x
        weighted = fused(x, y, weighted)
    return np.stack([top, folded(total), folded(weighted)], axis=2)


def fused(a: F32, b: F32, c: F32) -> F32:
    """a * b + c rounded once: the sum in double is rounded to odd, so that rounding it again does no harm."""
    product = a.astype(np.float64) * b
    total = product + c
    rest = (product - (total - (total - product))) + (c - (total - product))
    bits = total.view(np.int64)
    inexact = (rest != 0) & (bits & 1 == 0) & np.isfinite(total)
    nudged = np.where(inexact, bits + np.where((rest > 0) == (total > 0), 1, -1), bits)
    return nudged.view(np.float64).astype(np.float32)


def candidates_of(logits: F32, k: int) -> Array:
    """[r, k, 2] of logits [r, rows]: ids and bits of the k best."""
    found = np.full((len(logits), k, 2), 0xFFFFFFFF, np.uint32)
    found[..., 1] = np.float32(-np.inf).view(np.uint32)
    for row, line in enumerate(logits):
        order = np.lexsort((np.arange(len(line)), -line))
        order = order[~np.isnan(line[order])][:k]
        found[row, : len(order), 0] = order
        found[row, : len(order), 1] = line[order].view(np.uint32)
    return found
