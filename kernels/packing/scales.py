"""Pack the scale fields of records, see ``layout``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from edgedec.kernels.packing.formats import TILE, Format
from edgedec.kernels.packing.gguf_blocks import U8, Blocks

T = TypeVar("T", bound=np.generic)


def pack_scales(spec: Format, blocks: Blocks, tiles: int, records: int) -> Iterator[U8]:
    """Yield the scale fields of all records in file order, each u8[tiles, records, ...]."""
    for half in [blocks.d] if blocks.m is None else [blocks.d, blocks.m]:
        yield _to_tiles(half, tiles, records).view(np.uint8)
    if blocks.scales is None:
        return
    scales = _to_tiles(blocks.scales, tiles, records)
    if spec.name == "q6_k" or spec.recoded:
        yield scales.view(np.uint8)
    elif spec.name == "q3_k":
        halves = (scales + np.int8(32)).view(np.uint8).reshape(tiles, records, 8, 2, TILE)
        yield _pack_six_bit(halves[..., 0, :], halves[..., 1, :])
    elif blocks.mins is not None:
        mins = _to_tiles(blocks.mins, tiles, records)
        unsigned = scales.view(np.uint8)
        yield unsigned | (mins << np.uint8(4)) if spec.name == "q2_k" else _pack_six_bit(unsigned, mins)


def _pack_six_bit(first: U8, second: U8) -> U8:
    """Pack two 6-bit numbers per group, u8[tile, record, 8 groups, 16], into three rows for every two groups.

    The first two rows hold the low four bits of both numbers of a group, the third the high two bits of all.
    """
    shape = (*first.shape[:2], 4, 2, TILE)
    a, b = first.reshape(shape), second.reshape(shape)
    low = (a & 15) | ((b & 15) << 4)
    a, b = a >> 4, b >> 4
    high = a[..., 0, :] | (b[..., 0, :] << 2) | (a[..., 1, :] << 4) | (b[..., 1, :] << 6)
    return np.concatenate([low, high[..., None, :]], axis=3).astype(np.uint8)


def _to_tiles(values: NDArray[T], tiles: int, records: int) -> NDArray[T]:
    """Reorder [rows, per row] to [tile, record, per record, column]."""
    return np.ascontiguousarray(values.reshape(tiles, TILE, records, -1).transpose(0, 2, 3, 1))
