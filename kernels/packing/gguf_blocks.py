"""Split GGUF blocks into plain arrays of quants and scales. Source of the block structs: ggml-common.h.

Four inputs are handled as one little-endian u32, so that one mask or shift serves four quants.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from edgedec.core.quick_dataclass import dataclass

U8 = NDArray[np.uint8]
U32 = NDArray[np.uint32]
_NIBBLE = np.uint32(0x0F0F0F0F)
_CRUMB = np.uint32(0x03030303)
_BIT = np.uint32(0x01010101)
_SPREAD = np.array([sum((n >> j & 1) << (8 * j + 4) for j in range(4)) for n in range(16)], dtype=np.uint32)
"""Entry n: the word whose byte j holds bit j of the nibble n as its bit 4."""


@dataclass(frozen=True, slots=True)
class Blocks:
    """The arrays of a matrix [N,K], all as stored; nothing is converted.

    - quants: u8[N,K]; in q8_0 two's complement.
    - d: fp16 bits u16[N, K/32] (q4_0 to q8_0, iq4_nl) or u16[N, K/256] (k-quants), exponents u8[N, K/32]
      (mxfp4), or fp32 bits u32[N, K/256] (nvfp4).
    - m: the minimum, in the shape of d (q4_1, q5_1); in k-quants dmin.
    - scales: u8[N, K/32] (q4_k, q5_k; in blocks of ``recode`` bytes as they lie), u8[N, K/16] (q2_k,
      nvfp4) or i8[N, K/16] (q3_k, q6_k).
    - mins: u8, in the shape of scales (q4_k, q5_k, q2_k).
    """

    quants: U8
    d: NDArray[np.uint16] | NDArray[np.uint8] | U32
    m: NDArray[np.uint16] | None = None
    scales: NDArray[np.uint8] | NDArray[np.int8] | None = None
    mins: U8 | None = None


def split_blocks(format: str, raw: U8) -> Blocks:
    """Split GGUF rows u8[N, row_bytes] of whole blocks."""
    return _SPLITTERS[format](raw)


def _field(blocks: U8, start: int, size: int) -> U8:
    return np.ascontiguousarray(blocks[..., start : start + size])


def _half(blocks: U8, start: int) -> NDArray[np.uint16]:
    return _field(blocks, start, 2).view(np.uint16)[..., 0]


def _words(blocks: U8, start: int, size: int) -> U32:
    return _field(blocks, start, size).view(np.uint32)


def _bytes(words: U32, rows: int) -> U8:
    return np.ascontiguousarray(words).view(np.uint8).reshape(rows, -1)


def _split_small(block_bytes: int, has_min: bool = False, five_bits: bool = False) -> Callable[[U8], Blocks]:
    """q4_0, q4_1, q5_0, q5_1, iq4_nl: d, [m,] [qh u32,] 16 bytes (low nibbles: inputs 0..15; high: 16..31).

    mxfp4 has an exponent byte instead of d.
    """

    def split(raw: U8) -> Blocks:
        blocks = raw.reshape(raw.shape[0], -1, block_bytes)
        nibbles = _words(blocks, block_bytes - 16, 16)
        words = np.concatenate([nibbles & _NIBBLE, (nibbles >> np.uint32(4)) & _NIBBLE], axis=2)
        if five_bits:
            high = _words(blocks, block_bytes - 20, 4)
            words |= _SPREAD[(high >> np.arange(0, 32, 4, dtype=np.uint32)) & np.uint32(15)]
        minimum = _half(blocks, 2) if has_min else None
        scale = blocks[..., 0] if block_bytes == 17 else _half(blocks, 0)
        return Blocks(_bytes(words, raw.shape[0]), scale, minimum)

    return split


def _split_q8_0(raw: U8) -> Blocks:
    blocks = raw.reshape(raw.shape[0], -1, 34)
    return Blocks(_field(blocks, 2, 32).reshape(raw.shape[0], -1), _half(blocks, 0))


def _split_k(five_bits: bool) -> Callable[[U8], Blocks]:
    """q4_k, q5_k: d, dmin, 12 bytes of six-bit scales and mins, [qh 32 bytes,] 128 bytes of nibbles."""
    block_bytes = 176 if five_bits else 144

    def split(raw: U8) -> Blocks:
        blocks = raw.reshape(raw.shape[0], -1, block_bytes)
        nibbles = _words(blocks, block_bytes - 128, 128).reshape(*blocks.shape[:2], 4, 1, 8)
        words = (nibbles >> np.array([0, 4], dtype=np.uint32)[:, None]) & _NIBBLE
        if five_bits:
            high = _words(blocks, 16, 32)[:, :, None, :]
            bits = (high >> np.arange(8, dtype=np.uint32)[:, None]) & _BIT
            words |= (bits << np.uint32(4)).reshape(words.shape)
        scales, mins = _six_bit(_field(blocks, 4, 12))
        return Blocks(_bytes(words, raw.shape[0]), _half(blocks, 0), _half(blocks, 2), scales, mins)

    return split


def _six_bit(packed: U8) -> tuple[U8, U8]:
    """(scales, mins) u8[N, blocks*8] from 12 bytes: scales, mins, shared; bits 6, 7 are of groups 4..7."""
    low_scale, low_min, shared = packed[..., 0:4], packed[..., 4:8], packed[..., 8:12]
    scales = np.concatenate([low_scale & 63, (shared & 15) | (low_scale >> 6 << 4)], axis=-1)
    mins = np.concatenate([low_min & 63, (shared >> 4) | (low_min >> 6 << 4)], axis=-1)
    return scales.reshape(len(packed), -1), mins.reshape(len(packed), -1)


def _split_q6_k(raw: U8) -> Blocks:
    """q6_k: ql 128 bytes, qh 64 bytes, 16 signed scales, d. Half the inputs use half of ql and qh."""
    blocks = raw.reshape(raw.shape[0], -1, 210)
    low = _words(blocks, 0, 128).reshape(*blocks.shape[:2], 2, 1, 16)
    low = (low >> np.array([0, 4], dtype=np.uint32)[:, None]) & _NIBBLE
    high = _words(blocks, 128, 64).reshape(*blocks.shape[:2], 2, 1, 8)
    high = (high >> np.array([0, 2, 4, 6], dtype=np.uint32)[:, None]) & _CRUMB
    words = low.reshape(*blocks.shape[:2], 2, 4, 8) | (high << np.uint32(4))
    scales = _field(blocks, 192, 16).view(np.int8).reshape(raw.shape[0], -1)
    return Blocks(_bytes(words, raw.shape[0]), _half(blocks, 208), scales=scales)


def _split_q2_k(raw: U8) -> Blocks:
    """q2_k: 16 bytes of four-bit scale and min, 64 bytes of quants, d, dmin."""
    blocks = raw.reshape(raw.shape[0], -1, 84)
    both = _field(blocks, 0, 16).reshape(raw.shape[0], -1)
    d, dmin = _half(blocks, 80), _half(blocks, 82)
    return Blocks(
        _bytes(_crumbs(blocks, 16), raw.shape[0]), d, dmin, both & np.uint8(15), both >> np.uint8(4)
    )


def _split_q3_k(raw: U8) -> Blocks:
    """q3_k: 32 bytes of bit 2 of the quants, 64 bytes of bits 0 and 1, 12 bytes of six-bit scales, d."""
    blocks = raw.reshape(raw.shape[0], -1, 110)
    high = _words(blocks, 0, 32)[:, :, None, :]
    bits = (high >> np.arange(8, dtype=np.uint32)[:, None]) & _BIT
    words = _crumbs(blocks, 32).reshape(bits.shape) | (bits << np.uint32(2))
    packed = _field(blocks, 96, 12)
    low = np.concatenate([packed[..., :8] & 15, packed[..., :8] >> 4], axis=-1)
    high_bits = [packed[..., 8:] >> shift & 3 for shift in (0, 2, 4, 6)]
    scales = (low | (np.concatenate(high_bits, axis=-1) << 4)).view(np.int8) - np.int8(32)
    return Blocks(_bytes(words, raw.shape[0]), _half(blocks, 108), scales=scales.reshape(raw.shape[0], -1))


def _split_tq2_0(raw: U8) -> Blocks:
    """tq2_0: 64 bytes of quants, d."""
    blocks = raw.reshape(raw.shape[0], -1, 66)
    return Blocks(_bytes(_crumbs(blocks, 0), raw.shape[0]), _half(blocks, 64))


def _split_coded(four_bits: bool) -> Callable[[U8], Blocks]:
    """Blocks of ``recode``: d, 8 bytes of scales, then 128 bytes as in q4_k or 96 as in q3_k."""

    def split(raw: U8) -> Blocks:
        blocks = raw.reshape(raw.shape[0], -1, 138 if four_bits else 106)
        if four_bits:
            nibbles = _words(blocks, 10, 128).reshape(*blocks.shape[:2], 4, 1, 8)
            words = (nibbles >> np.array([0, 4], dtype=np.uint32)[:, None]) & _NIBBLE
        else:
            high = _words(blocks, 10, 32)[:, :, None, :]
            bits = (high >> np.arange(8, dtype=np.uint32)[:, None]) & _BIT
            words = _crumbs(blocks, 42).reshape(bits.shape) | (bits << np.uint32(2))
        scales = _field(blocks, 2, 8).reshape(raw.shape[0], -1)
        return Blocks(_bytes(words, raw.shape[0]), _half(blocks, 0), scales=scales)

    return split


def _split_nvfp4(raw: U8) -> Blocks:
    """Blocks of ``recode``: d as fp32, 16 bytes of scales, 128 bytes of nibbles as in q4_k."""
    blocks = raw.reshape(raw.shape[0], -1, 148)
    nibbles = _words(blocks, 20, 128).reshape(*blocks.shape[:2], 4, 1, 8)
    words = (nibbles >> np.array([0, 4], dtype=np.uint32)[:, None]) & _NIBBLE
    scales = _field(blocks, 4, 16).reshape(raw.shape[0], -1)
    return Blocks(_bytes(words, raw.shape[0]), _words(blocks, 0, 4)[..., 0], scales=scales)


def _crumbs(blocks: U8, start: int) -> U32:
    """Words of two-bit quants from 64 bytes: half the inputs use half of the bytes."""
    words = _words(blocks, start, 64).reshape(*blocks.shape[:2], 2, 1, 8)
    return (words >> np.array([0, 2, 4, 6], dtype=np.uint32)[:, None]) & _CRUMB


_SPLITTERS: dict[str, Callable[[U8], Blocks]] = {
    "q4_0": _split_small(18),
    "q4_1": _split_small(20, has_min=True),
    "q5_0": _split_small(22, five_bits=True),
    "q5_1": _split_small(24, has_min=True, five_bits=True),
    "q8_0": _split_q8_0,
    "q4_k": _split_k(five_bits=False),
    "q5_k": _split_k(five_bits=True),
    "q6_k": _split_q6_k,
    "q2_k": _split_q2_k,
    "q3_k": _split_q3_k,
    "iq4_nl": _split_small(18),
    "mxfp4": _split_small(17),
    "tq2_0": _split_tq2_0,
    "nvfp4": _split_nvfp4,
    **dict.fromkeys(("iq4", "iq3x", "iq3s"), _split_coded(four_bits=True)),
    **dict.fromkeys(("iq2", "iq1"), _split_coded(four_bits=False)),
}
