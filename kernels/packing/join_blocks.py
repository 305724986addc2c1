"""Join arrays of quants and scales into GGUF blocks again: the inverse of ``gguf_blocks``."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from edgedec.kernels.packing.gguf_blocks import U8, Blocks


def join_blocks(format: str, blocks: Blocks) -> U8:
    """Return the GGUF rows u8[N, row_bytes] that ``split_blocks`` made ``blocks`` of."""
    joined = np.concatenate(_JOINERS[format](blocks), axis=2)
    return joined.reshape(len(blocks.quants), -1)


def _groups(blocks: Blocks, size: int) -> U8:
    return blocks.quants.reshape(len(blocks.quants), -1, size)


def _half(values: NDArray[np.uint16] | NDArray[np.uint8] | None) -> U8:
    assert values is not None
    return np.ascontiguousarray(values)[..., None].view(np.uint8)


def _nibbles(low: U8, high: U8) -> U8:
    """Put the low four bits of two numbers into a byte."""
    kept = np.uint8(15)
    return low & kept | (high & kept) << np.uint8(4)


def _above(values: U8, bits: int) -> U8:
    """Return the bits from ``bits`` on."""
    return values >> np.uint8(bits)


def _small(blocks: Blocks) -> list[U8]:
    """q4_0, q4_1, iq4_nl, mxfp4; with bit 4 of the quants q5_0 and q5_1."""
    quants = _groups(blocks, 32)
    scales = [_half(blocks.d), *([] if blocks.m is None else [_half(blocks.m)])]
    return [*scales, _nibbles(quants[..., :16], quants[..., 16:])]


def _five_bits(blocks: Blocks) -> list[U8]:
    *scales, low = _small(blocks)
    return [*scales, np.packbits(_above(_groups(blocks, 32), 4), axis=2, bitorder="little"), low]


def _q8_0(blocks: Blocks) -> list[U8]:
    return [_half(blocks.d), _groups(blocks, 32)]


def _k(blocks: Blocks) -> list[U8]:
    quants = _groups(blocks, 256).reshape(len(blocks.quants), -1, 4, 2, 32)
    low = _nibbles(quants[..., 0, :], quants[..., 1, :])
    return [_half(blocks.d), _half(blocks.m), _six_bit(blocks), low.reshape(*low.shape[:2], -1)]


def _k_five_bits(blocks: Blocks) -> list[U8]:
    *scales, low = _k(blocks)
    quants = _groups(blocks, 256).reshape(len(blocks.quants), -1, 8, 32)
    return [*scales, _bits(_above(quants, 4), 1, axis=2), low]


def _bits(values: U8, width: int, axis: int) -> U8:
    """Put values of ``width`` bits along ``axis`` into one byte, the first in the lowest bits."""
    shape = [1] * values.ndim
    shape[axis] = -1
    shifts = (width * np.arange(values.shape[axis], dtype=np.uint8)).reshape(shape)
    kept = values & np.uint8((1 << width) - 1)
    joined: U8 = np.bitwise_or.reduce(kept << shifts, axis=axis)
    return joined


def _six_bit(blocks: Blocks) -> U8:
    """Return 12 bytes of six-bit scales and mins: those of groups 0..3, and what the others share."""
    assert blocks.scales is not None
    assert blocks.mins is not None
    scales = blocks.scales.reshape(len(blocks.quants), -1, 8).view(np.uint8)
    mins = blocks.mins.reshape(scales.shape)
    first = [one[..., :4] | _above(one[..., 4:], 4) << np.uint8(6) for one in (scales, mins)]
    return np.concatenate([*first, _nibbles(scales[..., 4:], mins[..., 4:])], axis=2)


def _q6_k(blocks: Blocks) -> list[U8]:
    assert blocks.scales is not None
    rows = len(blocks.quants)
    quants = _groups(blocks, 256).reshape(rows, -1, 2, 4, 32)
    low = quants.reshape(rows, -1, 2, 2, 64)
    low = _nibbles(low[..., 0, :], low[..., 1, :])
    high = _bits(_above(quants, 4), 2, axis=3)
    scales = blocks.scales.reshape(rows, -1, 16).view(np.uint8)
    return [low.reshape(rows, -1, 128), high.reshape(rows, -1, 64), scales, _half(blocks.d)]


def _crumbs(quants: U8) -> U8:
    """Return 64 bytes of bits 0 and 1: half the inputs use half of the bytes."""
    parts = quants.reshape(*quants.shape[:2], 2, 4, 32)
    return _bits(parts, 2, axis=3).reshape(*quants.shape[:2], 64)


def _q2_k(blocks: Blocks) -> list[U8]:
    assert blocks.scales is not None
    assert blocks.mins is not None
    scales = _nibbles(blocks.scales.view(np.uint8), blocks.mins).reshape(len(blocks.quants), -1, 16)
    return [scales, _crumbs(_groups(blocks, 256)), _half(blocks.d), _half(blocks.m)]


def _q3_k(blocks: Blocks) -> list[U8]:
    assert blocks.scales is not None
    rows, quants = len(blocks.quants), _groups(blocks, 256)
    scales = (blocks.scales + np.int8(32)).view(np.uint8).reshape(rows, -1, 16)
    low = _nibbles(scales[..., :8], scales[..., 8:])
    high = _bits(_above(scales, 4).reshape(rows, -1, 4, 4), 2, axis=2)
    bits = _bits(_above(quants, 2).reshape(rows, -1, 8, 32), 1, axis=2)
    return [bits, _crumbs(quants), low, high, _half(blocks.d)]


_JOINERS: dict[str, Callable[[Blocks], list[U8]]] = {
    "q4_0": _small,
    "q4_1": _small,
    "q5_0": _five_bits,
    "q5_1": _five_bits,
    "q8_0": _q8_0,
    "q4_k": _k,
    "q5_k": _k_five_bits,
    "q6_k": _q6_k,
    "q2_k": _q2_k,
    "q3_k": _q3_k,
    "iq4_nl": _small,
    "mxfp4": _small,
}
