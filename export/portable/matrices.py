"""Bodies of the ops that multiply by packed matrices, in float32; inputs are not rounded to int8."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from edgedec.export.portable.body import Body
from edgedec.export.portable.decode import UNPACKERS, float_columns, quantised_columns, selected_rows
from edgedec.kernels.packing.layout import FORMATS, TILE


def quant_embedding(body: Body, attrs: dict[str, Any], inputs: list[str]) -> list[str]:
    """Decode only the tiles of the tokens, then take each token's column of its tile."""
    ids, table = inputs
    packed = body.op("Gather", table, body.op("Div", ids, TILE), axis=0)
    column = body.op("Unsqueeze", body.op("Mod", ids, TILE), [1])
    rows = selected_rows(body, packed, column, attrs["format"])
    if attrs["cols"] % FORMATS[attrs["format"]].record:
        rows = body.slice(rows, 0, attrs["cols"], 1)
    scale = float(attrs.get("scale", 1.0))
    return [rows if scale == 1.0 else body.op("Mul", rows, scale)]


def quant_embedding_or_none(body: Body, attrs: dict[str, Any], inputs: list[str]) -> list[str]:
    """Look up any number of tokens, none too: a row that nobody asked for is added and taken away again.

    Unpacking reshapes by a size that is left open, which needs elements.
    """
    ids, table = inputs
    (rows,) = quant_embedding(body, attrs, [body.op("Concat", ids, [0], axis=0), table])
    return [body.slice(rows, 0, -1, 0)]


def quant_linear(body: Body, attrs: dict[str, Any], inputs: list[str]) -> list[str]:
    """Return the products plus bias plus residual."""
    x, bias, residual, *weights = inputs
    y = products(body, x, weights, attrs["formats"].split(","), attrs["rows"], attrs["cols"])
    for addend in filter(None, (bias, residual)):
        y = body.op("Add", y, addend)
    return [y]


def gated_mlp(body: Body, attrs: dict[str, Any], inputs: list[str]) -> list[str]:
    """Return act(gate x) * (up x)."""
    x, *weights = inputs
    rows = attrs["rows"]
    both = products(body, x, weights, attrs["formats"].split(","), [rows, rows], attrs["cols"])
    gate, up = (body.slice(both, start, start + rows, 1) for start in (0, rows))
    return [gated(body, attrs["activation"], gate, up)]


def products(
    body: Body, x: str, weights: list[str], formats: list[str], rows: Sequence[int], cols: int
) -> str:
    """Return x[T, cols] times each of the transposed matrices, side by side.

    Neighbouring matrices of one format are joined before unpacking, so that a runtime unpacks one matrix.
    """
    joined: list[tuple[list[str], str, int]] = []
    for weight, format, count in zip(weights, formats, rows, strict=True):
        packed, last, before = joined[-1] if joined else ([], "", 0)
        if last == format and before % TILE == 0:
            joined[-1] = ([*packed, weight], format, before + count)
        else:
            joined.append(([weight], format, count))
    parts = [
        product(body, x, body.op("Concat", *packed, axis=0) if packed[1:] else packed[0], format, count, cols)
        for packed, format, count in joined
    ]
    return parts[0] if len(parts) == 1 else body.op("Concat", *parts, axis=1)


def product(body: Body, x: str, packed: str, format: str, rows: int, cols: int) -> str:
    """Return x[T, cols] times the transposed matrix [rows, cols]."""
    if FORMATS[format].is_float:
        y = body.op("MatMul", x, float_columns(body, packed, format))
    else:
        weights, minima = quantised_columns(body, packed, format, cols)
        y = body.op("MatMul", x, weights)
        if minima:  # a group's minimum is multiplied by the sum of its inputs
            group = UNPACKERS[format].group
            groups = body.reshape(x, -1, cols // group, group)
            sums = body.op("ReduceSum", groups, [2], keepdims=0)
            y = body.op("Add", y, body.op("MatMul", sums, minima))
    return body.slice(y, 0, rows, 1) if rows % TILE else y


def gated_product(body: Body, attrs: dict[str, Any], inputs: list[str]) -> list[str]:
    """act(gate) * values."""
    values, gate = inputs
    return [gated(body, attrs["activation"], gate, values)]


def gated(body: Body, activation: str, gate: str, up: str) -> str:
    """Return act(gate) * up."""
    if activation != "clamped_silu":
        return body.op("Mul", _ACTIVATIONS[activation](body, gate), up)
    gate = body.op("Min", gate, np.float32(_LIMIT))
    up = body.op("Max", body.op("Min", up, np.float32(_LIMIT)), np.float32(-_LIMIT))
    active = body.op("Mul", gate, body.op("Sigmoid", body.op("Mul", gate, _ALPHA)))
    return body.op("Mul", active, body.op("Add", up, 1.0))


def _silu(body: Body, x: str) -> str:
    return body.op("Mul", x, body.op("Sigmoid", x))


def _gelu_tanh(body: Body, x: str) -> str:
    cube = body.op("Mul", body.op("Mul", x, x), x)
    inner = body.op("Add", x, body.op("Mul", cube, 0.044715))
    tanh = body.op("Tanh", body.op("Mul", inner, np.float32(math.sqrt(2 / math.pi))))
    return body.op("Mul", body.op("Mul", x, 0.5), body.op("Add", tanh, 1.0))


def _sigmoid(body: Body, x: str) -> str:
    return body.op("Sigmoid", x)


_ACTIVATIONS = {"silu": _silu, "gelu_tanh": _gelu_tanh, "sigmoid": _sigmoid}
_LIMIT, _ALPHA = 7.0, 1.702
"""Constants of the activation that clamps, see ``gated_mlp/gated_mlp.h``."""
