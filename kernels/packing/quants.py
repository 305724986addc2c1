"""Pack and unpack the quant fields of records, see ``layout``.

Four inputs are handled as one u32, so masks repeat in every byte.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from edgedec.kernels.packing.formats import TILE, Format
from edgedec.kernels.packing.gguf_blocks import U8, U32

_NIBBLES = np.uint32(0x0F0F0F0F)


def pack_quants(spec: Format, quants: U8, tiles: int, records: int) -> Iterator[U8]:
    """Yield the quant fields of all records in file order, from quants u8[N,K] as GGUF blocks store them."""
    words = np.ascontiguousarray(quants).view(np.uint32)
    # [tile, column, record, pair, group of the pair, step] -> [tile, record, pair, group, step, column]
    words = words.reshape(tiles, TILE, records, spec.pairs, 2, 8).transpose(0, 2, 3, 4, 5, 1)
    if spec.bits == 8:
        yield np.ascontiguousarray(words ^ np.uint32(0x80808080)).view(np.uint8)
        return
    if spec.bits < 4:
        low = _gather(words, 0, 2)
    else:
        low = (words[:, :, :, 0] & _NIBBLES) | ((words[:, :, :, 1] & _NIBBLES) << np.uint32(4))
    yield np.ascontiguousarray(low).view(np.uint8)
    if high := spec.bits - _low_bits(spec):
        yield np.ascontiguousarray(_gather(words, _low_bits(spec), high)).view(np.uint8)


def unpack_quants(spec: Format, tiles: U8) -> U32:
    """Return words u32[tiles, 16, K/4] from records u8[tiles, records, record bytes], biased as stored."""
    count, records = tiles.shape[:2]
    start = spec.record_bytes - TILE * spec.record * spec.bits // 8
    end = start + TILE * spec.record * _low_bits(spec) // 8
    low = np.ascontiguousarray(tiles[..., start:end]).view(np.uint32)
    shape = (count, records, spec.pairs, 2, 8, TILE)
    if spec.bits == 8:
        words = low.reshape(shape)
    elif spec.bits < 4:
        words = np.zeros(shape, dtype=np.uint32)
        _scatter(words, low, 0, 2)
    else:
        low = low.reshape(count, records, spec.pairs, 8, TILE)
        words = np.stack([low & _NIBBLES, (low >> np.uint32(4)) & _NIBBLES], axis=3)
    if high := spec.bits - _low_bits(spec):
        fields = np.ascontiguousarray(tiles[..., end:]).view(np.uint32)
        _scatter(words, fields, _low_bits(spec), high)
    return np.ascontiguousarray(words.transpose(0, 5, 1, 2, 3, 4)).reshape(count, TILE, -1)


def _low_bits(spec: Format) -> int:
    """Return how many bits of a quant are in the field ``lo``; the others are in ``hi``."""
    return 8 if spec.bits == 8 else 4 if spec.bits >= 4 else 2


def _gather(words: U32, first: int, bits: int) -> U32:
    """Gather ``bits`` bits of each step from bit ``first``: [..., 8 steps, 16] -> [..., fields, 16]."""
    per_byte = 8 // bits
    mask = np.uint32(0x01010101 * ((1 << bits) - 1))
    fields = []
    for start in range(0, 8, per_byte):
        field = np.zeros((*words.shape[:-2], TILE), dtype=np.uint32)
        for step in range(per_byte):
            field |= ((words[..., start + step, :] >> np.uint32(first)) & mask) << np.uint32(bits * step)
        fields.append(field)
    return np.stack(fields, axis=-2)


def _scatter(words: U32, packed: U32, first: int, bits: int) -> None:
    """Undo ``_gather``: set ``bits`` bits of ``words`` from bit ``first``."""
    per_byte = 8 // bits
    fields = packed.reshape(*words.shape[:-2], bits, TILE)
    mask = np.uint32(0x01010101 * ((1 << bits) - 1))
    for step in range(8):
        shift = np.uint32(bits * (step % per_byte))
        words[..., step, :] |= ((fields[..., step // per_byte, :] >> shift) & mask) << np.uint32(first)
