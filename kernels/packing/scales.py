"""Pack and unpack the scale fields of records, see ``layout``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from edgedec.kernels.packing.formats import GROUP, TILE, Format
from edgedec.kernels.packing.gguf_blocks import U8, Blocks

T = TypeVar("T", bound=np.generic)


def pack_scales(spec: Format, blocks: Blocks, tiles: int, records: int) -> Iterator[U8]:
    """Yield the scale fields of all records in file order, each u8[tiles, records, ...]."""
    for half in [blocks.d] if blocks.m is None else [blocks.d, blocks.m]:
        yield _to_tiles(half, tiles, records).view(np.uint8)
    if blocks.scales is None:
        return
    scales = _to_tiles(blocks.scales, tiles, records)
    if spec.name == "q6_k":
        yield scales.view(np.uint8)
    elif spec.name == "q3_k":
        halves = (scales + np.int8(32)).view(np.uint8).reshape(tiles, records, 8, 2, TILE)
        yield _pack_six_bit(halves[..., 0, :], halves[..., 1, :])
    elif blocks.mins is not None:
        mins = _to_tiles(blocks.mins, tiles, records)
        unsigned = scales.view(np.uint8)
        yield unsigned | (mins << np.uint8(4)) if spec.name == "q2_k" else _pack_six_bit(unsigned, mins)


def unpack_scales(spec: Format, quants: U8, tiles: U8, rows: int, cols: int) -> Blocks:
    """Return Blocks of ``quants`` with the scales of records u8[tiles, records, record bytes]."""
    if spec.record == 64:
        groups = cols // GROUP
        if spec.name == "mxfp4":
            return Blocks(quants, _to_rows(_bytes(tiles, 0, 2), rows, groups))
        d = _to_rows(_halves(tiles, 0, 2), rows, groups)
        return Blocks(quants, d, _to_rows(_halves(tiles, 64, 2), rows, groups) if spec.has_min else None)
    supers = cols // 256
    d = _to_rows(_halves(tiles, 0, 1), rows, supers)
    if spec.name == "q6_k":
        return Blocks(quants, d, scales=_to_rows(_bytes(tiles, 32, 16).view(np.int8), rows, supers * 16))
    if spec.name == "q3_k":
        halves = np.stack(_unpack_six_bit(_bytes(tiles, 32, 12)), axis=3).reshape(*tiles.shape[:2], 16, TILE)
        signed = halves.view(np.int8) - np.int8(32)
        return Blocks(quants, d, scales=_to_rows(signed, rows, supers * 16))
    m = _to_rows(_halves(tiles, 32, 1), rows, supers)
    if spec.name == "q2_k":
        both = _to_rows(_bytes(tiles, 64, 16), rows, supers * 16)
        return Blocks(quants, d, m, both & np.uint8(15), both >> np.uint8(4))
    scales, mins = _unpack_six_bit(_bytes(tiles, 64, 12))
    return Blocks(quants, d, m, _to_rows(scales, rows, supers * 8), _to_rows(mins, rows, supers * 8))


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


def _unpack_six_bit(rows: U8) -> tuple[U8, U8]:
    """Undo ``_pack_six_bit``, from u8[tile, record, 12, 16]."""
    fields = rows.reshape(*rows.shape[:2], 4, 3, TILE)
    low, high = fields[:, :, :, :2], fields[:, :, :, 2:]
    shifts = np.array([0, 4], dtype=np.uint8)[:, None]
    first = (low & 15) | ((high >> shifts & 3) << 4)
    second = (low >> 4) | ((high >> (shifts + 2) & 3) << 4)
    shape = (*fields.shape[:2], 8, TILE)
    return first.reshape(shape), second.reshape(shape)


def _to_tiles(values: NDArray[T], tiles: int, records: int) -> NDArray[T]:
    """Reorder [rows, per row] to [tile, record, per record, column]."""
    return np.ascontiguousarray(values.reshape(tiles, TILE, records, -1).transpose(0, 2, 3, 1))


def _to_rows(values: NDArray[T], rows: int, per_row: int) -> NDArray[T]:
    """Reorder [tile, record, per record, column] to [rows, per row] and cut the padding off."""
    flat = values.transpose(0, 3, 1, 2).reshape(values.shape[0] * TILE, -1)
    return np.ascontiguousarray(flat[:rows, :per_row])


def _bytes(tiles: U8, start: int, count: int) -> U8:
    """Return u8[tile, record, count, column] from byte ``start`` of every record."""
    return np.ascontiguousarray(tiles[..., start : start + TILE * count]).reshape(
        *tiles.shape[:2], count, TILE
    )


def _halves(tiles: U8, start: int, count: int) -> NDArray[np.uint16]:
    """Return fp16 bits u16[tile, record, count, column] from byte ``start`` of every record."""
    part = np.ascontiguousarray(tiles[..., start : start + 2 * TILE * count]).view(np.uint16)
    return part.reshape(*tiles.shape[:2], count, TILE)
