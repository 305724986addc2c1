"""Decodes packed weights (``kernels/packing/layout.py``) to float32 in standard ops, bit for bit as ggml.

An unpacker takes u8[tiles, bytes per tile] and returns

- the quants as stored, u8[tiles, records, pairs, 2 groups, 2 halves, 4 steps, 16 columns, 4 inputs];
- scale and minimum of every ``group`` of inputs, each f32[tiles, records, groups of a record, 16 columns].

A weight is scale * quant + minimum. The offset of a quant is part of the minimum: that product is exact, so
the result is rounded as in ggml.

A function does not depend on the size of the matrix, so one serves all matrices of a format. A runtime that
folds constants decodes the weights once, while it loads, and may keep all intermediate values until then.
Quants are therefore reordered while they are bytes, and minima are added to the product.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
from onnx import TensorProto

from edgedec.core.quick_dataclass import dataclass
from edgedec.export.model import DOMAIN
from edgedec.export.portable.body import Body
from edgedec.export.portable.floats import HALF, float_function, wide_number
from edgedec.kernels.packing.layout import FORMATS, GROUP, TILE, Format

UNPACK = "Unpack_"
"""Prefix of a function's name, before the format: ONNX Runtime 1.31 finds no overload in a function."""


@dataclass(frozen=True, slots=True)
class Unpacker:
    """The unpacker of one weight format; ``group`` inputs share a scale."""

    build: Callable[[Body, Format, str], tuple[str, str, str]]
    """Function from body, format and records u8[tiles, records, record bytes] to quants, scale, minimum."""
    group: int = GROUP


def unpacker_function(format: str) -> onnx.FunctionProto:
    """Return the unpacker of one format as an ONNX function."""
    body, spec = Body(), FORMATS[format]
    if spec.is_float:
        return float_function(UNPACK + format, spec)
    parts = UNPACKERS[format].build(body, spec, body.reshape("packed", 0, -1, spec.record_bytes))
    return body.function(UNPACK + format, "", ["packed"], parts, ["quants", "scale", "minimum"])


def float_columns(body: Body, packed: str, format: str) -> str:
    """Return a matrix of a float format, transposed, with its padding: f32[K, N]."""
    values = body.op(UNPACK + format, packed, domain=DOMAIN)
    return body.reshape(body.op("Transpose", values, perm=[1, 0, 2]), 0, -1)


def quantised_columns(body: Body, packed: str, format: str, cols: int) -> tuple[str, str]:
    """Return a matrix, transposed, with padded columns: f32[cols, N] without its minima, and the minima.

    The minima are f32[cols / group, N], or "" for a format without them. The weights come from
    DequantizeLinear; a runtime may run it in every pass or once, or fuse it with the product.
    """
    spec, group = FORMATS[format], UNPACKERS[format].group
    quants, *factors = body.node(UNPACK + format, [packed], 3, DOMAIN)
    count = body.op("Concat", body.constant([-1]), _count(body, quants), axis=0)
    # Two transpositions that each move one axis: ONNX Runtime is seven times as fast as with a single one.
    moved = body.op("Transpose", quants, perm=[0, 1, 2, 3, 4, 5, 7, 6])
    moved = body.op("Transpose", moved, perm=[1, 2, 3, 4, 5, 6, 0, 7])
    scale, minimum = (
        body.op("Reshape", body.op("Transpose", factor, perm=[1, 2, 0, 3]), count) for factor in factors
    )
    quants = body.op("Reshape", moved, count)
    if cols % spec.record:
        quants = body.slice(quants, 0, cols, 0)
        scale, minimum = (body.slice(factor, 0, cols // group, 0) for factor in (scale, minimum))
    if spec.values:
        table = np.array(spec.values, dtype=np.int8)
        quants = body.op("Gather", table, body.cast(quants, TensorProto.INT32), axis=0)
    offset = [body.op("Expand", np.uint8(spec.offset), body.op("Shape", scale))] if spec.offset else []
    weights = body.op("DequantizeLinear", quants, scale, *offset, axis=0, block_size=group)
    return weights, minimum if spec.has_min else ""


def selected_rows(body: Body, packed: str, column: str, format: str) -> str:
    """Return one row of each tile, with padding: f32[tiles, K]; ``column`` int64[tiles, 1] selects it."""
    if FORMATS[format].is_float:
        values = body.op(UNPACK + format, packed, domain=DOMAIN)
        return body.op("GatherND", body.op("Transpose", values, perm=[0, 2, 1]), column, batch_dims=1)
    quants, *factors = body.node(UNPACK + format, [packed], 3, DOMAIN)
    moved = body.op("Transpose", quants, perm=[0, 6, 1, 2, 3, 4, 5, 7])
    chosen = body.op("GatherND", body.reshape(moved, 0, TILE, -1), column, batch_dims=1)
    values = _numbers(body, format, body.reshape(chosen, 0, -1, UNPACKERS[format].group))
    for kind, factor in zip(("Mul", "Add"), factors, strict=True):
        factor = body.reshape(body.op("Transpose", factor, perm=[0, 3, 1, 2]), 0, TILE, -1)
        factor = body.op("GatherND", factor, column, batch_dims=1)
        values = body.op(kind, values, body.op("Unsqueeze", factor, [2]))
    return body.reshape(values, 0, -1)


def _numbers(body: Body, format: str, quants: str) -> str:
    """Return the values of quants as f32: the quants themselves, or entries of the format's table."""
    if not (values := FORMATS[format].values):
        return body.cast(quants, TensorProto.FLOAT)
    return body.op("Gather", np.array(values, dtype=np.float32), body.cast(quants, TensorProto.INT32), axis=0)


def _count(body: Body, quants: str) -> str:
    """Return the number of columns of all tiles, int64[1]."""
    return body.op("Mul", body.size(quants, 0), [TILE])


def _simple(body: Body, spec: Format, records: str) -> tuple[str, str, str]:
    """Unpack q4_0 to q8_0: groups of 32 with an fp16 scale, and a minimum if the format has one."""
    scale, minimum = _factors(body, spec, records, 0, 2)
    if spec.bits == 8:
        stored = body.slice(records, 64, spec.record_bytes, 2)
        return body.reshape(stored, 0, 0, 1, 2, 2, 4, TILE, 4), scale, minimum
    return _quants(body, spec, records, 128 if spec.has_min else 64), scale, minimum


def _exponents(body: Body, spec: Format, records: str) -> tuple[str, str, str]:
    """Unpack mxfp4: groups of 32 with the scale 2^(e - 128)."""
    stored = body.reshape(body.slice(records, 0, 2 * TILE, 2), 0, 0, 2, TILE)
    powers = np.ldexp(np.float32(1), np.arange(256, dtype=np.int32) - 128).astype(np.float32)
    scale = body.op("Gather", powers, body.cast(stored, TensorProto.INT32), axis=0)
    return _quants(body, spec, records, 2 * TILE), scale, _offset(body, spec, scale)


def _six_bit_scales(body: Body, spec: Format, records: str) -> tuple[str, str, str]:
    """Unpack q4_k and q5_k: 6-bit scale and minimum per group, each times an fp16 of the record."""
    scale, minimum = (
        body.op("Mul", factor, body.reshape(part, 0, 0, 8, TILE))
        for factor, part in zip(
            _factors(body, spec, records, 0, 1), _six_bits(body, records, 64), strict=True
        )
    )
    return _quants(body, spec, records, 256), scale, body.op("Neg", minimum)


def _biased_scales(body: Body, spec: Format, records: str) -> tuple[str, str, str]:
    """Unpack q3_k: a 6-bit scale less 32 for every 16 inputs, times an fp16 of the record."""
    halves = (body.op("Unsqueeze", part, [4]) for part in _six_bits(body, records, 32))
    biased = body.reshape(body.op("Concat", *halves, axis=4), 0, 0, 16, TILE)
    scale = body.op("Mul", _halves(body, records, 0, 1), body.op("Sub", biased, 32.0))
    return _quants(body, spec, records, 224), scale, _offset(body, spec, scale)


def _record_scales(body: Body, spec: Format, records: str) -> tuple[str, str, str]:
    """Unpack tq2_0: an fp16 of the record, for all of its groups."""
    scale = body.op("Mul", _halves(body, records, 0, 1), np.ones((8, 1), np.float32))
    return _quants(body, spec, records, 32), scale, _offset(body, spec, scale)


def _coded_scales(body: Body, spec: Format, records: str) -> tuple[str, str, str]:
    """Unpack formats of ``recode``: a signed byte of a group, or two nibbles n for 2 n + 1 of its halves."""
    stored = body.reshape(body.slice(records, 32, 160, 2), 0, 0, 8, TILE)
    if spec.bits == 4:
        biased = body.cast(body.op("BitwiseXor", stored, np.uint8(128)), TensorProto.FLOAT)
        factor = body.op("Sub", biased, 128.0)
    else:
        halves = (body.op("Unsqueeze", part, [3]) for part in _nibbles(body, stored))
        nibbles = body.reshape(body.op("Concat", *halves, axis=3), 0, 0, 16, TILE)
        factor = body.op("Add", body.op("Mul", body.cast(nibbles, TensorProto.FLOAT), 2.0), 1.0)
    unit = body.op("Mul", _halves(body, records, 0, 1), spec.unit)
    scale = body.op("Mul", unit, factor)
    return _quants(body, spec, records, 160), scale, _offset(body, spec, scale)


def _float8_scales(body: Body, spec: Format, records: str) -> tuple[str, str, str]:
    """Unpack nvfp4: a float of 8 bits for every 16 inputs, times an fp32 of the record."""
    stored = body.reshape(body.slice(records, 64, 320, 2), 0, 0, 16, TILE)
    with np.errstate(invalid="ignore"):
        short = (np.arange(256, dtype=np.uint16) << 7).view(np.float16).astype(np.float32) * spec.unit
    halves = body.op("Gather", short.astype(np.float32), body.cast(stored, TensorProto.INT32), axis=0)
    words = body.reshape(body.slice(records, 0, 64, 2), 0, 0, 1, TILE, 4)
    scale = body.op("Mul", wide_number(body, [body.element(words, i, 4) for i in range(4)]), halves)
    return _quants(body, spec, records, 320), scale, _offset(body, spec, scale)


def _nibbles(body: Body, stored: str) -> tuple[str, str]:
    """Return the low and the high nibbles of bytes."""
    return _and(body, stored, 15), _shift(body, stored, 4, "RIGHT")


def _nibble_scales(body: Body, spec: Format, records: str) -> tuple[str, str, str]:
    """Unpack q2_k: 4-bit scale and minimum for every 16 inputs, each times an fp16 of the record."""
    both = body.reshape(body.slice(records, 64, 320, 2), 0, 0, 16, TILE)
    scale, minimum = (
        body.op("Mul", factor, body.cast(part, TensorProto.FLOAT))
        for factor, part in zip(_factors(body, spec, records, 0, 1), _nibbles(body, both), strict=True)
    )
    return _quants(body, spec, records, 320), scale, body.op("Neg", minimum)


def _six_bits(body: Body, records: str, start: int) -> list[str]:
    """Return two 6-bit numbers of each group, each f32[tiles, records, 4 pairs, 2 groups, 16]."""
    fields = body.reshape(body.slice(records, start, start + 12 * TILE, 2), 0, 0, 4, 3, TILE)
    low, high = body.slice(fields, 0, 2, 3), body.slice(fields, 2, 3, 3)
    numbers = []
    for part in range(2):
        shifts = np.array([[2 * part], [4 + 2 * part]], dtype=np.uint8)
        four = _shift(body, low, 4, "RIGHT") if part else _and(body, low, 15)
        two = _and(body, body.op("BitShift", high, shifts, direction="RIGHT"), 3)
        six = body.op("BitwiseOr", four, _shift(body, two, 4, "LEFT"))
        numbers.append(body.cast(six, TensorProto.FLOAT))
    return numbers


def _signed_scales(body: Body, spec: Format, records: str) -> tuple[str, str, str]:
    """Unpack q6_k: a signed byte as scale of every 16 inputs, times an fp16 of the record."""
    stored = body.reshape(body.slice(records, 32, 288, 2), 0, 0, 16, TILE)
    biased = body.cast(body.op("BitwiseXor", stored, np.uint8(128)), TensorProto.FLOAT)
    scale = body.op("Mul", _halves(body, records, 0, 1), body.op("Sub", biased, 128.0))
    return _quants(body, spec, records, 288), scale, _offset(body, spec, scale)


def _offset(body: Body, spec: Format, scale: str) -> str:
    """Return the minimum of a format that has an offset instead."""
    return body.op("Mul", scale, float(-spec.offset))


def _quants(body: Body, spec: Format, records: str, start: int) -> str:
    """Return quants of 2 to 6 bits; their two or four low bits begin at byte ``start``."""
    low_bits = 4 if spec.bits >= 4 else 2
    end = start + 128 * low_bits * spec.pairs
    low = body.slice(records, start, end, 2)
    if low_bits == 4:
        nibbles = body.reshape(low, 0, 0, spec.pairs, 1, 2, 4, TILE, 4)
        quants = body.op("Concat", _and(body, nibbles, 15), _shift(body, nibbles, 4, "RIGHT"), axis=3)
    else:
        quants = _steps(body, spec, low, 2)
    if bits := spec.bits - low_bits:
        high = _steps(body, spec, body.slice(records, end, spec.record_bytes, 2), bits)
        quants = body.op("BitwiseOr", quants, _shift(body, high, low_bits, "LEFT"))
    return quants


def _steps(body: Body, spec: Format, stored: str, bits: int) -> str:
    """Unpack a field whose bytes hold 8 steps of one bit, or the 4 steps of a half in two bits each."""
    stored = body.reshape(stored, 0, 0, spec.pairs, 2, bits, 1, TILE, 4)
    shape = (2, 4, 1, 1) if bits == 1 else (4, 1, 1)
    shifts = (bits * np.arange(np.prod(shape))).astype(np.uint8).reshape(shape)
    return _and(body, body.op("BitShift", stored, shifts, direction="RIGHT"), (1 << bits) - 1)


def _factors(body: Body, spec: Format, records: str, start: int, count: int) -> tuple[str, str]:
    """Return ``count`` scales of every record, and as many minima, stored after them if there are any."""
    if not spec.has_min:
        scale = _halves(body, records, start, count)
        return scale, _offset(body, spec, scale)
    both = _halves(body, records, start, 2 * count)
    return body.slice(both, 0, count, 2), body.slice(both, count, 2 * count, 2)


def _halves(body: Body, records: str, start: int, count: int) -> str:
    """Return f32[tiles, records, count, 16] from the fp16 at byte ``start`` of every record."""
    pairs = body.slice(records, start, start + 2 * TILE * count, 2)
    pairs = body.reshape(pairs, 0, 0, count, TILE, 2)
    return body.op(HALF, body.element(pairs, 0, 4), body.element(pairs, 1, 4), domain=DOMAIN)


def _and(body: Body, x: str, mask: int) -> str:
    return body.op("BitwiseAnd", x, np.uint8(mask))


def _shift(body: Body, x: str, bits: int, direction: str) -> str:
    return body.op("BitShift", x, np.uint8(bits), direction=direction)


UNPACKERS: dict[str, Unpacker] = {
    **dict.fromkeys(("q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "iq4_nl"), Unpacker(_simple)),
    **dict.fromkeys(("q4_k", "q5_k"), Unpacker(_six_bit_scales)),
    "q6_k": Unpacker(_signed_scales, group=16),
    "mxfp4": Unpacker(_exponents),
    "q3_k": Unpacker(_biased_scales, group=16),
    "q2_k": Unpacker(_nibble_scales, group=16),
    "tq2_0": Unpacker(_record_scales),
    "nvfp4": Unpacker(_float8_scales, group=16),
    **dict.fromkeys(("iq4", "iq3x", "iq3s"), Unpacker(_coded_scales)),
    **dict.fromkeys(("iq2", "iq1"), Unpacker(_coded_scales, group=16)),
}
"""Unpackers of the quantised formats. A new format needs an entry; a test compares with FORMATS."""
UNPACKABLE = {*UNPACKERS, *(name for name, spec in FORMATS.items() if spec.is_float)}
