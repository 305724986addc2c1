"""Bodies of the ops that multiply by packed matrices, in float32: inputs are not rounded to int8."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from edgedec.export.portable.body import Body
from edgedec.export.portable.decode import columns, selected_rows
from edgedec.kernels.layout import FORMATS, TILE


def quant_embedding(body: Body, attrs: dict[str, Any], inputs: list[str]) -> list[str]:
    """Decode the tiles of the tokens alone, then take each token's column of its tile."""
    ids, table = inputs
    packed = body.op("Gather", table, body.op("Div", ids, TILE), axis=0)
    column = body.op("Unsqueeze", body.op("Mod", ids, TILE), [1])
    rows = selected_rows(body, packed, column, attrs["format"])
    if attrs["cols"] % FORMATS[attrs["format"]].record:
        rows = body.slice(rows, 0, attrs["cols"], 1)
    scale = float(attrs.get("scale", 1.0))
    return [rows if scale == 1.0 else body.op("Mul", rows, scale)]


def quant_linear(body: Body, attrs: dict[str, Any], inputs: list[str]) -> list[str]:
    """The products one after the other, then bias, then residual."""
    x, bias, residual, *weights = inputs
    parts = [
        product(body, x, weight, format, rows, attrs["cols"])
        for weight, format, rows in zip(weights, attrs["formats"].split(","), attrs["rows"], strict=True)
    ]
    y = parts[0] if len(parts) == 1 else body.op("Concat", *parts, axis=1)
    for addend in filter(None, (bias, residual)):
        y = body.op("Add", y, addend)
    return [y]


def gated_mlp(body: Body, attrs: dict[str, Any], inputs: list[str]) -> list[str]:
    """act(gate x) * (up x)."""
    x, *weights = inputs
    gate, up = (
        product(body, x, weight, format, attrs["rows"], attrs["cols"])
        for weight, format in zip(weights, attrs["formats"].split(","), strict=True)
    )
    return [body.op("Mul", _ACTIVATIONS[attrs["activation"]](body, gate), up)]


def product(body: Body, x: str, packed: str, format: str, rows: int, cols: int) -> str:
    """x[T, cols] times the transposed matrix [rows, cols]."""
    matrix = columns(body, packed, format)
    if cols % FORMATS[format].record or rows % TILE:
        matrix = body.op("Slice", matrix, [0, 0], [cols, rows], [0, 1])
    return body.op("MatMul", x, matrix)


def _silu(body: Body, x: str) -> str:
    return body.op("Mul", x, body.op("Sigmoid", x))


def _gelu_tanh(body: Body, x: str) -> str:
    cube = body.op("Mul", body.op("Mul", x, x), x)
    inner = body.op("Add", x, body.op("Mul", cube, 0.044715))
    tanh = body.op("Tanh", body.op("Mul", inner, np.float32(math.sqrt(2 / math.pi))))
    return body.op("Mul", body.op("Mul", x, 0.5), body.op("Add", tanh, 1.0))


_ACTIVATIONS = {"silu": _silu, "gelu_tanh": _gelu_tanh}
