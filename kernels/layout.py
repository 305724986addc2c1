"""The packed weight layout, defined in NumPy (``formats.h`` is the same thing in C++).

A matrix W[N,K] becomes tiles of 16 output columns; a tile is a run of records of 64 or 256 inputs (of one in
the formats of plain numbers). Inside
a group of 32 inputs, step s holds inputs 4s..4s+3 of all 16 columns: byte ``column*4 + input``. Values are
those of the GGUF blocks, bit for bit: nothing is requantised, only moved. N is padded with zero columns, K
with zero groups.

Record of 64 inputs, groups g = 0, 1:
  d f16[2][16] (mxfp4: exponents u8[2][16]); m f16[2][16] (only q4_1, q5_1);
  lo u8[8 steps][64]: group 0 in the low nibble, group 1 in the high one; for q8_0 u8[2][8][64] = q + 128;
  hi u8[2][64] (only q5_0, q5_1): bit s = bit 4 of the quant at step s.
Record of 256 inputs, 8 groups in 4 pairs:
  q4_k, q5_k: d f16[16]; dmin f16[16]; scales u8[4 pairs][A, B, C][16]; lo [4][8][64]; hi [8][64] (q5_k);
  q6_k: d f16[16]; scales i8[16][16]; lo [4][8][64]; hi u8[8][2 halves][64], two bits a step.
Record of one input (f16, bf16, f32): the bits of the 16 columns.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from edgedec.kernels.formats import FORMATS, GROUP, TILE, Format
from edgedec.kernels.gguf_blocks import U8, U32, Blocks, split_blocks

__all__ = ["FORMATS", "GROUP", "TILE", "Format"]
__all__ += ["chunk_rows", "dequantise", "dequantise_blocks", "pack", "pack_chunks", "unpack"]

_CHUNK_ELEMENTS = 1 << 22
T = TypeVar("T", bound=np.generic)


def pack(format: str, raw: U8) -> U8:
    """Pack GGUF rows u8[N, row_bytes] into u8[tiles, bytes per tile]. Raises ValueError on a ragged row."""
    rows, cols = raw.shape[0], _cols(FORMATS[format], raw)
    out = np.empty(FORMATS[format].packed_shape(rows, cols), dtype=np.uint8)
    done = 0
    for chunk in pack_chunks(format, raw):
        out[done : done + len(chunk)] = chunk
        done += len(chunk)
    return out


def chunk_rows(cols: int) -> int:
    """Rows to pack at a time (whole tiles) so that the working memory stays at some tens of megabytes."""
    return max(1, _CHUNK_ELEMENTS // (TILE * max(cols, 1))) * TILE


def pack_chunks(format: str, raw: U8) -> Iterator[U8]:
    """Like ``pack``, but yields runs of tiles, so that memory stays bounded for any N."""
    spec = FORMATS[format]
    cols = _cols(spec, raw)
    step = chunk_rows(cols)
    for start in range(0, raw.shape[0], step):
        yield _pack_rows(spec, raw[start : start + step], cols)


def unpack(format: str, packed: U8, rows: int, cols: int) -> Blocks:
    """The quants and scales of a packed [rows, cols] matrix, as they stood in the GGUF blocks. Not for
    floats.
    """
    spec = FORMATS[format]
    _check_shape(spec, packed, rows, cols)
    tiles = packed.reshape(packed.shape[0], spec.records(cols), spec.record_bytes)
    words = _unpack_quants(spec, tiles)
    quants = words.reshape(-1, words.shape[2]).view(np.uint8)[:rows, :cols]
    if spec.bits == 8:
        quants = quants ^ np.uint8(0x80)
    if spec.record == 64:
        groups = cols // GROUP
        if spec.name == "mxfp4":
            return Blocks(quants, _to_rows(tiles[..., :32].reshape(*tiles.shape[:2], 2, TILE), rows, groups))
        d = _to_rows(_halves(tiles, 0, 2), rows, groups)
        m = _to_rows(_halves(tiles, 64, 2), rows, groups) if spec.has_min else None
        return Blocks(quants, d, m)
    supers = cols // 256
    d = _to_rows(_halves(tiles, 0, 1), rows, supers)
    if not spec.has_min:
        signed = tiles[..., 32:288].reshape(*tiles.shape[:2], 16, TILE).view(np.int8)
        return Blocks(quants, d, scales=_to_rows(signed, rows, supers * 16))
    m = _to_rows(_halves(tiles, 32, 1), rows, supers)
    scales, mins = _unpack_six_bit(tiles[..., 64:256].reshape(*tiles.shape[:2], 4, 3, TILE))
    return Blocks(quants, d, m, _to_rows(scales, rows, supers * 8), _to_rows(mins, rows, supers * 8))


def dequantise(format: str, packed: U8, rows: int, cols: int) -> NDArray[np.float32]:
    """The weights f32[rows, cols], with the operations in the order of ggml's ``dequantize_row_*``."""
    if FORMATS[format].is_float:
        return _unpack_floats(FORMATS[format], packed, rows, cols)
    return dequantise_blocks(format, unpack(format, packed, rows, cols))


def dequantise_blocks(format: str, blocks: Blocks) -> NDArray[np.float32]:
    """As ``dequantise``, from unpacked blocks."""
    spec = FORMATS[format]
    quants = blocks.quants
    scale = (
        _exponent_scales(blocks.d) if spec.name == "mxfp4" else blocks.d.view(np.float16).astype(np.float32)
    )
    minimum = None if blocks.m is None else blocks.m.view(np.float16).astype(np.float32)
    if blocks.scales is not None:
        per_super = blocks.scales.shape[1] // max(scale.shape[1], 1)
        scale = np.repeat(scale, per_super, axis=1) * blocks.scales.astype(np.float32)
        if minimum is not None and blocks.mins is not None:
            minimum = -(np.repeat(minimum, per_super, axis=1) * blocks.mins.astype(np.float32))
    grouped = quants.reshape(*scale.shape, -1).astype(np.float32)
    if spec.bits == 8:
        grouped = quants.view(np.int8).reshape(grouped.shape).astype(np.float32)
    elif spec.values:
        grouped = np.array(spec.values, dtype=np.float32)[quants].reshape(grouped.shape)
    else:
        grouped -= np.float32(spec.offset)
    values: NDArray[np.float32] = scale[..., None] * grouped
    if minimum is not None:
        values += minimum[..., None]
    return values.reshape(quants.shape)


def _exponent_scales(exponents: NDArray[np.integer[Any]]) -> NDArray[np.float32]:
    """2^(e - 128): half of what the OCP specification says, for doubled values."""
    scales: NDArray[np.float32] = np.ldexp(np.float32(1), exponents.astype(np.int32) - 128)
    return scales


def _cols(spec: Format, raw: U8) -> int:
    if raw.ndim != 2 or raw.dtype != np.uint8 or raw.shape[1] % spec.block_bytes:
        raise ValueError(f"{spec.name} rows are whole blocks of {spec.block_bytes} bytes, got {raw.shape}")
    return int(raw.shape[1]) // spec.block_bytes * spec.block


def _check_shape(spec: Format, packed: U8, rows: int, cols: int) -> None:
    if packed.shape != (expected := spec.packed_shape(rows, cols)):
        raise ValueError(f"{spec.name}[{rows},{cols}] packs into {expected}, not {packed.shape}")


def _unpack_floats(spec: Format, packed: U8, rows: int, cols: int) -> NDArray[np.float32]:
    """The numbers of a packed [rows, cols] matrix, widened to f32."""
    _check_shape(spec, packed, rows, cols)
    stored = packed.view({"f16": np.float16, "bf16": np.uint16, "f32": np.float32}[spec.name])
    values = stored.reshape(-1, cols, TILE).transpose(0, 2, 1).reshape(-1, cols)[:rows]
    if spec.name == "bf16":
        return (values.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return values.astype(np.float32)


def _pack_rows(spec: Format, raw: U8, cols: int) -> U8:
    tiles, records = spec.packed_shape(raw.shape[0], cols)[0], spec.records(cols)
    padded_rows, padded_bytes = tiles * TILE, records * spec.record // spec.block * spec.block_bytes
    if raw.shape != (padded_rows, padded_bytes):
        padded = np.zeros((padded_rows, padded_bytes), dtype=np.uint8)
        padded[: raw.shape[0], : raw.shape[1]] = raw
        raw = padded
    if spec.is_float:
        numbers = raw.view(f"<u{spec.block_bytes}").reshape(tiles, TILE, cols).transpose(0, 2, 1)
        return np.ascontiguousarray(numbers).view(np.uint8).reshape(tiles, -1)
    blocks = split_blocks(spec.name, raw)
    parts = [*_pack_scales(spec, blocks, tiles, records), *_pack_quants(spec, blocks, tiles, records)]
    out = np.concatenate([part.reshape(tiles, records, -1) for part in parts], axis=2)
    return out.reshape(tiles, records * spec.record_bytes)


def _pack_scales(spec: Format, blocks: Blocks, tiles: int, records: int) -> Iterator[U8]:
    """The scale fields of a record, each u8[tiles, records, bytes], in file order."""
    halves = [blocks.d] if blocks.m is None else [blocks.d, blocks.m]
    for half in halves:
        yield _to_tiles(half, tiles, records).view(np.uint8).reshape(tiles, records, -1)
    if blocks.scales is None:
        return
    scales = _to_tiles(blocks.scales, tiles, records)
    if blocks.mins is None:
        yield scales.view(np.uint8).reshape(tiles, records, -1)
        return
    # Two groups share three rows: the low four bits of scale and min of either, and the high two bits of
    # all four.
    sc = scales.reshape(tiles, records, 4, 2, TILE)
    mn = _to_tiles(blocks.mins, tiles, records).reshape(tiles, records, 4, 2, TILE)
    low = (sc & 15) | ((mn & 15) << 4)
    sc_high, mn_high = sc >> 4, mn >> 4
    high = (
        sc_high[..., 0, :] | (mn_high[..., 0, :] << 2) | (sc_high[..., 1, :] << 4) | (mn_high[..., 1, :] << 6)
    )
    yield np.concatenate([low, high[..., None, :]], axis=3).reshape(tiles, records, -1)


def _pack_quants(spec: Format, blocks: Blocks, tiles: int, records: int) -> Iterator[U8]:
    """The quant fields of a record. Words of four inputs move as one u32, so masks repeat every byte."""
    words = np.ascontiguousarray(blocks.quants).view(np.uint32)
    # [tile, column, record, pair, group of the pair, step] -> [tile, record, pair, group, step, column]
    words = words.reshape(tiles, TILE, records, spec.pairs, 2, 8).transpose(0, 2, 3, 4, 5, 1)
    if spec.bits == 8:
        yield np.ascontiguousarray(words ^ np.uint32(0x80808080)).view(np.uint8).reshape(tiles, records, -1)
        return
    first, second = words[:, :, :, 0], words[:, :, :, 1]
    low = (first & np.uint32(0x0F0F0F0F)) | ((second & np.uint32(0x0F0F0F0F)) << np.uint32(4))
    yield np.ascontiguousarray(low).view(np.uint8).reshape(tiles, records, -1)
    if spec.bits > 4:
        yield np.ascontiguousarray(_gather_high(words, spec.bits - 4)).view(np.uint8)


def _gather_high(words: U32, bits: int) -> U32:
    """Bits 4 up of a group's steps, gathered in bytes: [..., 8 steps, 16] -> [..., fields, 16]."""
    per_byte = 8 // bits
    mask = np.uint32(0x01010101 * ((1 << bits) - 1))
    fields = []
    for start in range(0, 8, per_byte):
        field = np.zeros((*words.shape[:-2], TILE), dtype=np.uint32)
        for step in range(per_byte):
            field |= ((words[..., start + step, :] >> np.uint32(4)) & mask) << np.uint32(bits * step)
        fields.append(field)
    return np.stack(fields, axis=-2)


def _unpack_quants(spec: Format, tiles: U8) -> U32:
    """Words u32[tiles, 16, K/4] of a packed matrix, biased as stored."""
    count, records = tiles.shape[:2]
    start = spec.record_bytes - TILE * spec.record * spec.bits // 8
    if spec.bits == 8:
        words = np.ascontiguousarray(tiles[..., start:]).view(np.uint32)
        words = words.reshape(count, records, 1, 2, 8, TILE)
    else:
        end = start + 512 * spec.pairs
        low = np.ascontiguousarray(tiles[..., start:end]).view(np.uint32)
        low = low.reshape(count, records, spec.pairs, 8, TILE)
        mask = np.uint32(0x0F0F0F0F)
        words = np.stack([low & mask, (low >> np.uint32(4)) & mask], axis=3)
        if spec.bits > 4:
            _scatter_high(words, np.ascontiguousarray(tiles[..., end:]).view(np.uint32), spec.bits - 4)
    return np.ascontiguousarray(words.transpose(0, 5, 1, 2, 3, 4)).reshape(count, TILE, -1)


def _scatter_high(words: U32, high: U32, bits: int) -> None:
    per_byte = 8 // bits
    fields = high.reshape(*words.shape[:-2], bits, TILE)
    mask = np.uint32(0x01010101 * ((1 << bits) - 1))
    for step in range(8):
        shift = np.uint32(bits * (step % per_byte))
        words[..., step, :] |= ((fields[..., step // per_byte, :] >> shift) & mask) << np.uint32(4)


def _to_tiles(values: NDArray[T], tiles: int, records: int) -> NDArray[T]:
    """[rows, per row] -> [tile, record, per record, column]."""
    return np.ascontiguousarray(values.reshape(tiles, TILE, records, -1).transpose(0, 2, 3, 1))


def _to_rows(values: NDArray[T], rows: int, per_row: int) -> NDArray[T]:
    """[tile, record, per record, column] -> [rows, per row], padding cut off."""
    flat = values.transpose(0, 3, 1, 2).reshape(values.shape[0] * TILE, -1)
    return np.ascontiguousarray(flat[:rows, :per_row])


def _halves(tiles: U8, start: int, count: int) -> NDArray[np.uint16]:
    """fp16 bits u16[tile, record, count, column] at byte ``start`` of every record."""
    part = np.ascontiguousarray(tiles[..., start : start + 2 * TILE * count]).view(np.uint16)
    return part.reshape(*tiles.shape[:2], count, TILE)


def _unpack_six_bit(fields: U8) -> tuple[U8, U8]:
    """(scales, mins) u8[tile, record, 8, 16] from fields [tile, record, 4 pairs, A B C, 16]."""
    low, high = fields[:, :, :, :2], fields[:, :, :, 2:]
    shifts = np.array([0, 4], dtype=np.uint8)[:, None]
    scales = (low & 15) | ((high >> shifts & 3) << 4)
    mins = (low >> 4) | ((high >> (shifts + 2) & 3) << 4)
    shape = (*fields.shape[:2], 8, TILE)
    return scales.reshape(shape), mins.reshape(shape)
