"""Quantises groups of 32 weights to 4 or 5 bits, with scales and minima found by search.

The search minimises sum_j w_j (x_j - y_j)^2 over a group, where y are the rounded values. If w_j is the mean
square of input j, this is the expected squared error of the output for uncorrelated inputs. It is the method
of llama.cpp's importance matrix (ggml-quants.c, tools/imatrix): try several scales and improve each once by
weighted least squares. A group for which no candidate beats ggml's plain rounding keeps the plain rounding.
"""

from __future__ import annotations

import numpy as np
from gguf import quants
from gguf.constants import GGMLQuantizationType
from numpy.typing import NDArray

from edgedec.kernels.packing.formats import FORMATS, GROUP, Format
from edgedec.kernels.packing.gguf_blocks import split_blocks

F32 = NDArray[np.float32]
U8 = NDArray[np.uint8]
SEARCHED = ("q4_0", "q4_1", "q5_0", "q5_1")
"""Formats whose scales are searched for; 8 bits would gain nothing, and floats have no scales."""
_STRETCHES = (0.72, 0.78, 0.83, 0.87, 0.91, 0.95, 1.0, 1.05, 1.1, -0.98, -1.07, -1.14)
"""Candidate factors on the scale that the extremes give; a negative one moves the spare level to the
other sign."""
_SHRINKS = (0.7, 0.76, 0.81, 0.85, 0.89, 0.92, 0.95, 0.98, 1.02)
"""Candidate factors for formats with a minimum, about the middle of a group, where the sign has no effect."""
_BATCH = 1 << 13
"""Groups searched at a time, so that the buffers of a candidate fit into the processor's cache."""


def quantise(values: F32, format: str, importance: NDArray[np.floating] | None = None) -> U8:
    """Quantise rows f32[N, K], K a multiple of 32, to GGUF blocks u8[N, row bytes] of ``format``.

    ``importance`` f[K] weighs the squared errors of the columns; None weighs all alike. Values that the
    format represents exactly stay exact. The result is deterministic.
    """
    plain = quants.quantize(values, GGMLQuantizationType[format.upper()]).view(np.uint8)
    if format not in SEARCHED:
        return plain
    rows, cols = values.shape
    weights = np.ones(cols, dtype=np.float32) if importance is None else _positive(importance)
    spec, groups = FORMATS[format], values.reshape(-1, GROUP)
    blocks = plain.reshape(-1, spec.block_bytes).copy()
    tiled = np.broadcast_to(weights.reshape(1, -1, GROUP), (rows, cols // GROUP, GROUP)).reshape(-1, GROUP)
    for start in range(0, len(groups), _BATCH):
        part = slice(start, start + _BATCH)
        blocks[part] = _search(spec, groups[part], tiled[part], blocks[part])
    return blocks.reshape(plain.shape)


def _positive(importance: NDArray[np.floating]) -> F32:
    """Scale to a mean of 1 and keep above 0: an input that the sample never used can still occur."""
    weights = importance.astype(np.float64) / max(float(importance.mean()), 1e-300)
    return np.maximum(weights, 1e-4).astype(np.float32)


def _search(spec: Format, x: F32, w: F32, plain: U8) -> U8:
    """Return the best blocks u8[B, bytes] for groups x f32[B, 32]; ``plain`` are those of plain rounding."""
    taken = split_blocks(spec.name, plain)
    levels = taken.quants.reshape(-1, GROUP).astype(np.float32) - np.float32(spec.offset)
    d = taken.d.reshape(-1).view(np.float16).astype(np.float32)
    m = np.zeros_like(d) if taken.m is None else taken.m.reshape(-1).view(np.float16).astype(np.float32)
    with np.errstate(all="ignore"):  # a group of zeros has no scale, and loses against the plain one
        new_d, new_m = _best(spec, x, w, d)
        new = _round(spec, x, new_d, new_m)
        better = _error(x, w, new, new_d, new_m) < _error(x, w, levels, d, m)
    levels = np.where(better[:, None], new, levels) + np.float32(spec.offset)
    return _encode(spec, levels.astype(np.uint8), np.where(better, new_d, d), np.where(better, new_m, m))


def _best(spec: Format, x: F32, w: F32, plain_d: F32) -> tuple[F32, F32]:
    """Return d and m of the candidate with the smallest error."""
    sums = w.sum(axis=1), (w * x).sum(axis=1), np.einsum("bj,bj,bj->b", w, x, x)
    low, high = x.min(axis=1), x.max(axis=1)
    middle, step = (low + high) / 2, (high - low) / np.float32(2**spec.bits - 1)
    least, d, m = np.full_like(low, np.inf), np.zeros_like(low), np.zeros_like(low)
    for stretch in map(np.float32, _SHRINKS if spec.has_min else _STRETCHES):
        if spec.has_min:
            levels = _round(spec, x, step * stretch, middle - (middle - low) * stretch)
        else:
            levels = _round(spec, x, plain_d * stretch, None)
        error, new_d, new_m = _fit(spec, x, w, levels, sums)
        better = error < least
        least, d, m = np.where(better, error, least), np.where(better, new_d, d), np.where(better, new_m, m)
    return d, m


def _round(spec: Format, x: F32, d: F32, m: F32 | None) -> F32:
    """Return the nearest levels, as numbers from -offset on."""
    levels: F32 = (x if m is None else x - m[:, None]) * np.reciprocal(d)[:, None]
    np.rint(levels, out=levels)
    return np.clip(levels, -spec.offset, 2**spec.bits - 1 - spec.offset, out=levels)


def _fit(spec: Format, x: F32, w: F32, q: F32, sums: tuple[F32, F32, F32]) -> tuple[F32, F32, F32]:
    """Return (error, d, m) with the least weighted squared error for levels ``q``; d and m are fp16 values.

    ``sums`` are the sums of w, w x and w x^2 over each group.
    """
    sum_w, sum_x, sum_xx = sums
    wq = w * q
    sum_qq, sum_qx = np.einsum("bj,bj->b", wq, q), np.einsum("bj,bj->b", wq, x)
    if not spec.has_min:
        d = _half(sum_qx / sum_qq)
        return sum_xx + d * (d * sum_qq - 2 * sum_qx), d, np.zeros_like(d)
    sum_q = wq.sum(axis=1)
    d = _half((sum_w * sum_qx - sum_q * sum_x) / (sum_w * sum_qq - sum_q * sum_q))
    m = _half((sum_x - d * sum_q) / sum_w)
    error = sum_xx + d * (d * sum_qq - 2 * sum_qx) + m * (m * sum_w + 2 * d * sum_q - 2 * sum_x)
    return error, d, m


def _half(values: F32) -> F32:
    return values.astype(np.float16).astype(np.float32)


def _error(x: F32, w: F32, q: F32, d: F32, m: F32) -> F32:
    miss = q * d[:, None] + m[:, None] - x
    error: F32 = (w * miss * miss).sum(axis=1)
    return error


def _encode(spec: Format, quants: U8, d: F32, m: F32) -> U8:
    """Encode as in ggml-common.h: d, [m,] [fifth bits as u32,] low nibbles of inputs 0..15 and 16..31."""
    parts = [d.astype("<f2").view(np.uint8).reshape(-1, 2)]
    if spec.has_min:
        parts.append(m.astype("<f2").view(np.uint8).reshape(-1, 2))
    if spec.bits == 5:
        parts.append(np.packbits(quants >> 4, axis=1, bitorder="little"))
    parts.append(((quants[:, :16] & 15) | (quants[:, 16:] & 15) << 4).astype(np.uint8))
    return np.concatenate(parts, axis=1)
