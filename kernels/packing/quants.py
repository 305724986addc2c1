"""Pack the quant fields of records, see ``layout``.

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
