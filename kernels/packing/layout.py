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
  tq2_0: d f16[16]; lo u8[8][2 halves][64], two bits a step;
  iq4, iq3x, iq3s: d f16[16]; scales i8[8][16]; lo [4][8][64];
  iq2, iq1: d f16[16]; scales u8[8][16], one nibble n for each half of a group: 2n + 1; lo and hi as in q3_k.
  nvfp4: d f32[16]; scales u8[16][16], each a float of 8 bits without its sign; lo [4][8][64].
Record of one input (f16, bf16, f32): the bits of the 16 columns.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np
from numpy.typing import NDArray

from edgedec.kernels.packing.formats import FORMATS, GROUP, TILE, Format
from edgedec.kernels.packing.gguf_blocks import U8, split_blocks
from edgedec.kernels.packing.quants import pack_quants
from edgedec.kernels.packing.recode import coded_values
from edgedec.kernels.packing.scales import pack_scales

__all__ = ["FORMATS", "GROUP", "TILE", "Format"]
__all__ += ["chunk_rows", "dequantise", "pack", "pack_chunks", "unpack_rows"]

_CHUNK_ELEMENTS = 1 << 22
_RECORDS = 64
"""Records that are unpacked at a time: their bits, a byte each, fit into the processor's cache."""


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


def unpack_rows(format: str, packed: U8, rows: int, cols: int) -> U8:
    """Return the GGUF rows u8[rows, row_bytes] that ``pack`` made ``packed`` of, bit for bit.

    Raises ValueError when the shape does not match.
    """
    spec = FORMATS[format]
    if packed.shape != (expected := spec.packed_shape(rows, cols)):
        raise ValueError(f"{format}[{rows},{cols}] packs into {expected}, not {packed.shape}")
    if spec.is_float:
        numbers = np.ascontiguousarray(packed).view(f"<u{spec.block_bytes}").reshape(-1, cols, TILE)
        turned = np.ascontiguousarray(numbers.transpose(0, 2, 1)).reshape(-1, cols)
        return turned[:rows].view(np.uint8)
    order, empty = _places_of_bits(spec)
    records = packed.reshape(-1, spec.record_bytes) ^ empty
    for start in range(0, len(records), _RECORDS):
        part = records[start : start + _RECORDS]
        part[:] = np.packbits(np.take(np.unpackbits(part, axis=1), order, axis=1), axis=1)
    tiles = records.reshape(len(packed), -1, TILE, spec.record_bytes // TILE).transpose(0, 2, 1, 3)
    raw = tiles.reshape(len(packed) * TILE, -1)
    return np.ascontiguousarray(raw[:rows, : spec.row_bytes(cols)])


def dequantise(format: str, packed: U8, rows: int, cols: int) -> NDArray[np.float32]:
    """Return the weights f32[rows, cols], with the bits of ggml's ``dequantize_row_*``."""
    from gguf import GGMLQuantizationType, quants  # slow import

    raw = unpack_rows(format, packed, rows, cols)
    if FORMATS[format].recoded:
        return coded_values(FORMATS[format], raw)[:, :cols]
    values = quants.dequantize(raw, GGMLQuantizationType[format.upper()])
    return np.asarray(values, dtype=np.float32)


@cache
def _places_of_bits(spec: Format) -> tuple[NDArray[np.int64], U8]:
    """Return where in a record each bit of its 16 GGUF rows lies, and the record of zeros.

    A record is a permutation of these bits, of which some are flipped. It is learned from ``pack`` itself:
    bit n of every source's number is packed in turn.
    """
    numbers = np.arange(8 * spec.record_bytes)
    empty = _pack_rows(spec, np.zeros((TILE, spec.record_bytes // TILE), np.uint8), spec.record)[0]
    sources = np.zeros_like(numbers)
    for bit in range(len(numbers).bit_length()):
        raw = np.packbits((numbers >> bit & 1).astype(np.uint8)).reshape(TILE, -1)
        packed = _pack_rows(spec, raw, spec.record)[0] ^ empty
        sources |= np.unpackbits(packed).astype(np.int64) << bit
    return np.argsort(sources), empty


def _cols(spec: Format, raw: U8) -> int:
    if raw.ndim != 2 or raw.dtype != np.uint8 or raw.shape[1] % spec.block_bytes:
        raise ValueError(f"{spec.name} rows are whole blocks of {spec.block_bytes} bytes, got {raw.shape}")
    return int(raw.shape[1]) // spec.block_bytes * spec.block


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
