"""Define the packed weight layout in NumPy; ``formats.h`` is the same layout in C++.

A matrix W[N,K] becomes tiles of 16 output columns. A tile is a run of records of 64 or 256 inputs (in float
formats one input). Inside a group of 32 inputs, step s holds inputs 4s..4s+3 of all 16 columns: byte
``column*4 + input``. Values are moved, never requantised: they keep the bits of the GGUF blocks. N is padded
with zero columns, K with zero groups.

Record of 64 inputs, groups g = 0, 1:
  d f16[2][16] (mxfp4: exponents u8[2][16]); m f16[2][16] (only q4_1, q5_1);
  lo u8[8 steps][64]: group 0 in the low nibble, group 1 in the high one; for q8_0 u8[2][8][64] = q + 128;
  hi u8[2][64] (only q5_0, q5_1): bit s = bit 4 of the quant at step s.
Record of 256 inputs, 8 groups in 4 pairs:
  q4_k, q5_k: d f16[16]; dmin f16[16]; scales u8[4 pairs][A, B, C][16]; lo [4][8][64]; hi [8][64] (q5_k);
  q6_k: d f16[16]; scales i8[16][16]; lo [4][8][64]; hi u8[8][2 halves][64], two bits a step;
  q2_k: d f16[16]; dmin f16[16]; scales u8[16][16], min in the high nibble; lo u8[8][2 halves][64];
  q3_k: d f16[16]; scales u8[4 pairs][A, B, C][16], the scales of a group's two halves stored as
  scale and min; lo u8[8][2 halves][64], two bits a step; hi u8[8][64], bit s = bit 2 of the quant at step s.
Record of one input (f16, bf16, f32): the bits of the 16 columns.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgedec.kernels.packing.formats import FORMATS, GROUP, TILE, Format
from edgedec.kernels.packing.gguf_blocks import U8, Blocks, split_blocks
from edgedec.kernels.packing.join_blocks import join_blocks
from edgedec.kernels.packing.quants import pack_quants, unpack_quants
from edgedec.kernels.packing.scales import pack_scales, unpack_scales

__all__ = ["FORMATS", "GROUP", "TILE", "Format"]
__all__ += ["chunk_rows", "dequantise", "dequantise_blocks", "pack", "pack_chunks", "unpack", "unpack_rows"]

_CHUNK_ELEMENTS = 1 << 22


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
    """Return how many rows (whole tiles) to pack at a time with some tens of megabytes of working memory."""
    return max(1, _CHUNK_ELEMENTS // (TILE * max(cols, 1))) * TILE


def pack_chunks(format: str, raw: U8) -> Iterator[U8]:
    """Yield the result of ``pack`` in runs of tiles, with bounded memory for any N."""
    spec = FORMATS[format]
    cols = _cols(spec, raw)
    step = chunk_rows(cols)
    for start in range(0, raw.shape[0], step):
        yield _pack_rows(spec, raw[start : start + step], cols)


def unpack(format: str, packed: U8, rows: int, cols: int) -> Blocks:
    """Return the quants and scales of a packed [rows, cols] matrix as the GGUF blocks had them.

    Not for float formats. Raises ValueError when the shape does not match.
    """
    spec = FORMATS[format]
    _check_shape(spec, packed, rows, cols)
    tiles = packed.reshape(packed.shape[0], spec.records(cols), spec.record_bytes)
    words = unpack_quants(spec, tiles)
    quants = words.reshape(-1, words.shape[2]).view(np.uint8)[:rows, :cols]
    if spec.bits == 8:
        quants = quants ^ np.uint8(0x80)
    return unpack_scales(spec, quants, tiles, rows, cols)


def unpack_rows(format: str, packed: U8, rows: int, cols: int) -> U8:
    """Return the GGUF rows u8[rows, row_bytes] that ``pack`` made ``packed`` of, bit for bit.

    Raises ValueError when the shape does not match.
    """
    spec = FORMATS[format]
    if not spec.is_float:
        return join_blocks(format, unpack(format, packed, rows, cols))
    _check_shape(spec, packed, rows, cols)
    numbers = np.ascontiguousarray(packed).view(f"<u{spec.block_bytes}").reshape(-1, cols, TILE)
    turned = np.ascontiguousarray(numbers.transpose(0, 2, 1)).reshape(-1, cols)[:rows]
    return turned.view(np.uint8)


def dequantise(format: str, packed: U8, rows: int, cols: int) -> NDArray[np.float32]:
    """Return the weights f32[rows, cols], in the order of operations of ggml's ``dequantize_row_*``."""
    if FORMATS[format].is_float:
        return _unpack_floats(FORMATS[format], packed, rows, cols)
    return dequantise_blocks(format, unpack(format, packed, rows, cols))


def dequantise_blocks(format: str, blocks: Blocks) -> NDArray[np.float32]:
    """Do the same as ``dequantise`` from unpacked blocks."""
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
    """Return 2^(e - 128): half of the OCP specification's scale, for doubled values."""
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
    """Return a packed [rows, cols] float matrix widened to f32."""
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
    scales = pack_scales(spec, blocks, tiles, records)
    parts = [*scales, *pack_quants(spec, blocks.quants, tiles, records)]
    out = np.concatenate([part.reshape(tiles, records, -1) for part in parts], axis=2)
    return out.reshape(tiles, records * spec.record_bytes)
