"""Recode the block types of GGUF files whose quants are indices of a grid, without a change of any weight.

A point of a grid is a run of 4 or 8 sizes, of which there are 3 or 8. So a weight is one of 6 or 16 signed
values, times the scale of its group: 3 or 4 bits, which kernels look up in a table of 16.

A block of ours has 256 inputs: d, fp16; 8 bytes of scales; and codes, 128 bytes laid out as in q4_k, or 96
as in q3_k. A scale is an int8 of 32 inputs (iq4, iq3x, iq3s), or two nibbles n of 16 inputs each, which stand
for 2n + 1 (iq2, iq1).

nvfp4 has a scale of 16 inputs with four bits of exponent and three of fraction. Files often have one more for
the whole matrix, or for each expert, in a tensor of its own. Our block begins with that one, fp32, then come
the 16 scales, and 128 bytes of codes as in q4_k. The last block of a row may be a part, padded with zeros.

The grids come from the ``gguf`` package. Source of the block structs: ggml-common.h.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgedec.kernels.packing.formats import FORMATS, GROUP, Format

U8 = NDArray[np.uint8]
_BLOCK = 256
_RECODED = {
    "iq4_xs": "iq4",
    "iq3_xxs": "iq3x",
    "iq3_s": "iq3s",
    "iq2_xxs": "iq2",
    "iq2_xs": "iq2",
    "iq2_s": "iq2",
    "iq1_s": "iq1",
    "iq1_m": "iq1",
    "tq1_0": "tq2_0",
    "nvfp4": "nvfp4",
}
"""Types of GGUF files, and the formats that hold their weights."""


def packed_format(type: str) -> str | None:
    """Return the format in which a type of GGUF files is packed; None for one without kernels."""
    name = _RECODED.get(type, type)
    return name if name in FORMATS and (type in _RECODED or not FORMATS[name].recoded) else None


def readable_types() -> tuple[str, ...]:
    """Return the types of GGUF files that can be packed."""
    return (*(name for name, spec in FORMATS.items() if not spec.recoded), *_RECODED)


def recode(type: str, raw: U8, scale: float = 1.0) -> U8:
    """Return rows u8[N, row_bytes] of a GGUF type as blocks of its format, the same unless it is recoded.

    ``scale`` multiplies all weights; only nvfp4 has room for another one than 1.
    """
    if type == "nvfp4":
        return _nvfp4(raw, scale)
    if scale != 1:
        raise ValueError(f"{type} has no scale of a matrix")
    found = _RECODERS.get(type)
    return raw if found is None else found(raw)


def coded_values(spec: Format, raw: U8) -> NDArray[np.float32]:
    """Return the weights f32[N, K] of rows of our blocks, with the bits of ggml's ``dequantize_row_*``."""
    from edgedec.kernels.packing.gguf_blocks import split_blocks

    blocks = split_blocks(spec.name, raw)
    assert blocks.scales is not None
    unit, halves = spec.unit, spec.bits == 3 or spec.name == "nvfp4"
    if spec.name == "nvfp4":
        scales = (blocks.scales.astype(np.uint16) << 7).view(np.float16).astype(np.float32) * np.float32(unit)
        unit = 1.0
    elif spec.bits == 4:
        scales = blocks.scales.view(np.int8).astype(np.float32)
    else:
        nibbles = np.stack([blocks.scales & 15, blocks.scales >> 4], axis=-1)
        scales = (2 * nibbles.reshape(len(raw), -1) + 1).astype(np.float32)
    with np.errstate(invalid="ignore", over="ignore"):
        stored = np.float32 if spec.name == "nvfp4" else np.float16
        d: NDArray[np.float32] = blocks.d.view(stored).astype(np.float32)
        scale = np.repeat(d * np.float32(unit), _BLOCK // GROUP * (1 + halves), axis=1) * scales
        values = np.array(spec.values, np.float32)[blocks.quants].reshape(*scale.shape, -1)
        found: NDArray[np.float32] = (values * scale[..., None]).reshape(len(raw), -1)
        return found


@cache
def _grid(type: str) -> U8:
    """Return the indices of the sizes at each point of a type's grid, u8[points, 4 or 8]."""
    from gguf import GGMLQuantizationType, quants

    kind: Any = quants._type_traits[GGMLQuantizationType[type.upper()]]
    kind.init_grid()
    points = kind.grid.reshape(kind.grid_shape)
    indices: U8 = np.searchsorted(np.array(kind.grid_map, np.float32), points).astype(np.uint8)
    return indices


def _bits(packed: U8) -> U8:
    """Return the bits of bytes, the lowest first, on a new axis."""
    return np.unpackbits(packed[..., None], axis=-1, bitorder="little")


def _with_parity(signs: NDArray[Any]) -> U8:
    """Return the signs of eight values from seven bits: an even number of them is negative."""
    odd = signs ^ (signs >> 4)
    odd = odd ^ (odd >> 2)
    odd = (odd ^ (odd >> 1)) & 1
    whole: U8 = (signs | (odd << 7)).astype(np.uint8)
    return whole


def _seven_bits(words: NDArray[Any]) -> U8:
    """Return the signs in words of four times seven bits, u8[..., 4 bytes]."""
    return _with_parity(words[..., None] >> np.array([0, 7, 14, 21], np.uint32) & np.uint32(127))


def _nibbles(packed: U8) -> U8:
    """Return the low and the high nibble of bytes, side by side."""
    return np.stack([packed & 15, packed >> 4], axis=-1).reshape(*packed.shape[:-1], -1)


def _block(d: U8, scales: NDArray[Any], codes: NDArray[Any], bits: int) -> U8:
    """Return rows of our blocks from d u8[N, B, 2], scales u8[N, B, 8] and codes, N * B * 256 of them."""
    codes = codes.reshape(*d.shape[:2], -1)
    if bits == 4:
        pairs = codes.reshape(*d.shape[:2], 4, 2, 32)
        fields = [pairs[..., 0, :] | (pairs[..., 1, :] << 4)]
    else:
        steps = (codes & 3).reshape(*d.shape[:2], 2, 4, 32) << np.array([0, 2, 4, 6], np.uint8)[:, None]
        high = (codes >> 2).reshape(*d.shape[:2], 8, 32)
        fields = [np.packbits(high, axis=-2, bitorder="little"), np.bitwise_or.reduce(steps, axis=-2)]
    parts = [d, scales, *(field.reshape(*d.shape[:2], -1) for field in fields)]
    return np.concatenate(parts, axis=2).astype(np.uint8).reshape(len(d), -1)


def _fields(raw: U8, *sizes: int) -> list[U8]:
    """Split rows of blocks into fields of so many bytes, u8[N, blocks, size]."""
    blocks = raw.reshape(len(raw), -1, sum(sizes))
    return [np.ascontiguousarray(part) for part in np.split(blocks, np.cumsum(sizes)[:-1], axis=2)]


def _iq4_xs(raw: U8) -> U8:
    d, high, low, codes = _fields(raw, 2, 2, 4, 128)
    two = high.view("<u2") >> np.arange(0, 16, 2, dtype=np.uint16) & 3
    scales = (_nibbles(low) | (two.astype(np.uint8) << 4)) - np.uint8(32)
    halves = codes.reshape(*d.shape[:2], 8, 1, 16)
    return _block(d, scales, np.concatenate([halves & 15, halves >> 4], axis=3), 4)


def _iq3_xxs(raw: U8) -> U8:
    d, points, words = _fields(raw, 2, 64, 32)
    both = words.view("<u4")
    sizes = _grid("iq3_xxs")[points].reshape(*both.shape, 4, 8)
    return _block(d, 2 * (both >> 28) + 1, sizes | (_bits(_seven_bits(both)) << 3), 4)


def _iq3_s(raw: U8) -> U8:
    d, low, high, signs, scales = _fields(raw, 2, 64, 8, 32, 4)
    points = low | (_bits(high).reshape(low.shape).astype(np.uint16) << 8)
    sizes = _grid("iq3_s")[points].reshape(*signs.shape, 8)
    return _block(d, 2 * _nibbles(scales) + 1, sizes | (_bits(signs) << 3), 4)


def _iq2_xxs(raw: U8) -> U8:
    d, fields = _fields(raw, 2, 64)
    words = fields.view("<u4").reshape(*d.shape[:2], 8, 2)
    points = np.ascontiguousarray(words[..., 0]).view(np.uint8).reshape(*d.shape[:2], 8, 4)
    signs, scale = _seven_bits(words[..., 1]), (words[..., 1] >> 28).astype(np.uint8)
    return _block(d, scale | (scale << 4), _grid("iq2_xxs")[points] | (_bits(signs) << 2), 3)


def _iq2_xs(raw: U8) -> U8:
    d, fields, scales = _fields(raw, 2, 64, 8)
    words = fields.view("<u2")
    signs = _with_parity((words >> 9).astype(np.uint32))
    return _block(d, scales, _grid("iq2_xs")[words & 511] | (_bits(signs) << 2), 3)


def _iq2_s(raw: U8) -> U8:
    d, low, signs, high, scales = _fields(raw, 2, 32, 32, 8, 8)
    two = high[..., None] >> np.array([0, 2, 4, 6], np.uint8) & 3
    points = low | (two.reshape(low.shape).astype(np.uint16) << 8)
    return _block(d, scales, _grid("iq2_s")[points] | (_bits(signs) << 2), 3)


def _iq1_s(raw: U8) -> U8:
    d, low, fields = _fields(raw, 2, 32, 16)
    words = fields.view("<u2")
    three = words[..., None] >> np.array([0, 3, 6, 9], np.uint16) & 7
    points = low | (three.reshape(low.shape) << 8)
    scale = (words >> 12 & 7).astype(np.uint8)
    down = np.repeat((words >> 15).astype(np.uint8), 4, axis=-1)
    return _block(d, scale | (scale << 4), _grid("iq1_s")[points] | (down << 2)[..., None], 3)


def _iq1_m(raw: U8) -> U8:
    low, high, fields = _fields(raw, 32, 16, 8)
    words = fields.view("<u2")
    quarters = words >> 12 << np.array([0, 4, 8, 12], np.uint16)
    d = np.bitwise_or.reduce(quarters, axis=-1, keepdims=True).astype("<u2").view(np.uint8)
    three = (words[..., None] >> np.array([0, 3, 6, 9], np.uint16) & 7).astype(np.uint8)
    scales = three.reshape(*d.shape[:2], 8, 2)
    four = _nibbles(high)
    points = low | ((four & 7).astype(np.uint16) << 8)
    codes = _grid("iq1_m")[points] | ((four >> 3) << 2)[..., None]
    return _block(d, scales[..., 0] | (scales[..., 1] << 4), codes, 3)


def _tq1_0(raw: U8) -> U8:
    """Five ternary digits in a byte become five numbers of two bits each."""
    first, second, last, d = _fields(raw, 32, 16, 4, 2)
    powers = np.array([1, 3, 9, 27, 81], np.uint8)[:, None]
    digits = [
        (part[..., None, :] * powers[:count]).reshape(*d.shape[:2], -1)
        for part, count in ((first, 5), (second, 5), (last, 4))
    ]
    codes = (np.concatenate(digits, axis=2).astype(np.uint16) * 3 >> 8).astype(np.uint8)
    steps = codes.reshape(*d.shape[:2], 2, 4, 32) << np.array([0, 2, 4, 6], np.uint8)[:, None]
    packed = np.bitwise_or.reduce(steps, axis=-2).reshape(*d.shape[:2], -1)
    return np.concatenate([packed, d], axis=2).reshape(len(raw), -1)


def _nvfp4(raw: U8, scale: float) -> U8:
    """Join the scales of four blocks, and the matrix's own; a scale that ggml reads as zero becomes one."""
    missing = -(raw.shape[1] // 36) % 4
    scales, codes = _fields(np.pad(raw, ((0, 0), (0, 36 * missing))), 4, 32)
    seven = np.where(scales == 0x7F, 0, scales & 0x7F)
    bytes_ = codes.reshape(len(raw), -1, 4, 8)
    nibbles = np.concatenate([bytes_ & 15, bytes_ >> 4], axis=-1).reshape(len(raw), -1, 4, 2, 32)
    fields = [seven.reshape(len(raw), -1, 16), nibbles[..., 0, :] | (nibbles[..., 1, :] << 4)]
    blocks = fields[0].shape[1]
    d = np.broadcast_to(np.array([scale], "<f4").view(np.uint8), (len(raw), blocks, 4))
    parts = [d, fields[0], fields[1].reshape(len(raw), blocks, 128)]
    return np.concatenate(parts, axis=2).astype(np.uint8).reshape(len(raw), -1)


_RECODERS: dict[str, Callable[[U8], U8]] = {
    "iq4_xs": _iq4_xs,
    "iq3_xxs": _iq3_xxs,
    "iq3_s": _iq3_s,
    "iq2_xxs": _iq2_xxs,
    "iq2_xs": _iq2_xs,
    "iq2_s": _iq2_s,
    "iq1_s": _iq1_s,
    "iq1_m": _iq1_m,
    "tq1_0": _tq1_0,
}
