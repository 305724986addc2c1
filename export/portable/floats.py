"""Makes exact floats from their bytes in standard ops: opset 21 has no op that reinterprets bits.

Sign and exponent select two table entries: the number with a mantissa of zero, and the step for one unit of
the mantissa. Sums and products of these are exact. NaNs are not kept: weights have none.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto

from edgedec.export.model import DOMAIN
from edgedec.export.portable.body import Body
from edgedec.kernels.packing.layout import TILE, Format

F32 = NDArray[np.float32]
HALF = "HalfFromBytes"
_SIGN_EXPONENT = np.arange(512, dtype=np.uint32) << 23
_SUBNORMAL_EXPONENT = _SIGN_EXPONENT | np.uint32(1 << 23)  # 2^-126 is the step's power below it, too


def half_function() -> onnx.FunctionProto:
    """Return the function that makes fp16 of two bytes.

    The high byte has the sign, the exponent and two bits of the mantissa; the low byte counts steps.
    """
    body = Body()
    high = np.arange(256, dtype=np.uint16) << 8
    base = high.view(np.float16).astype(np.float32)
    with np.errstate(invalid="ignore"):
        step = (high + 1).view(np.float16).astype(np.float32) - base
    value = _stepped(
        body, base, step, body.cast("high", TensorProto.INT32), body.cast("low", TensorProto.FLOAT)
    )
    return body.function(HALF, "", ["low", "high"], [value], ["value"])


def float_function(name: str, spec: Format) -> onnx.FunctionProto:
    """Return the function from u8[tiles, bytes per tile] to f32[tiles, K, 16 columns]."""
    body = Body()
    stored = body.reshape("packed", 0, -1, TILE, spec.block_bytes)
    value = _NUMBERS[spec.name](body, [body.element(stored, i, 3) for i in range(spec.block_bytes)])
    return body.function(name, "", ["packed"], [value], ["values"])


def _f16(body: Body, parts: list[str]) -> str:
    return body.op(HALF, *parts, domain=DOMAIN)


def wide_number(body: Body, parts: list[str]) -> str:
    """Make bf16 or f32 of bytes, the lowest first: a sign bit, eight bits of exponent, then the mantissa."""
    *low, second, top = parts
    index = body.op("Mul", body.cast(top, TensorProto.INT32), np.int32(2))
    bit = body.op("BitShift", second, np.uint8(7), direction="RIGHT")
    index = body.op("Add", index, body.cast(bit, TensorProto.INT32))
    mantissa = body.cast(body.op("BitwiseAnd", second, np.uint8(127)), TensorProto.FLOAT)
    for part in reversed(low):
        mantissa = body.op("Add", body.op("Mul", mantissa, 256.0), body.cast(part, TensorProto.FLOAT))
    base = _SIGN_EXPONENT.view(np.float32)
    power = np.where(base == 0, _SUBNORMAL_EXPONENT.view(np.float32), base)
    step = (power * np.float32(2.0 ** -(8 * len(low) + 7))).astype(np.float32)
    return _stepped(body, base, step, index, mantissa)


def _stepped(body: Body, base: F32, step: F32, index: str, count: str) -> str:
    first, slope = (body.op("Gather", table, index, axis=0) for table in (base, step))
    return body.op("Add", first, body.op("Mul", slope, count))


_NUMBERS: dict[str, Callable[[Body, list[str]], str]] = {"f16": _f16, "bf16": wide_number, "f32": wide_number}
