"""The body of Experts: a loop over tokens that decodes the experts of each."""

from __future__ import annotations

from typing import Any

import onnx
from onnx import TensorProto, helper

from edgedec.export.model import DOMAIN
from edgedec.export.portable.body import Body
from edgedec.export.portable.decode import UNPACK, UNPACKERS, float_columns, quantised_columns
from edgedec.export.portable.matrices import gated, product
from edgedec.kernels.packing.experts import expert_places
from edgedec.kernels.packing.layout import FORMATS, TILE


def experts(body: Body, attrs: dict[str, Any], inputs: list[str]) -> list[str]:
    """Return the weighted sum of each token's experts, plus the residual."""
    x, scores, packed, choice, factor, residual = (*inputs, "", "", "")[:6]
    chosen, weights = _choose(body, attrs, (scores, choice, factor))
    step = _step(attrs, (x, packed, chosen, weights))
    count = body.op("Squeeze", body.size(x, 0), [0])
    (y,) = body.node("Loop", [count, ""], 1, "", body=step)
    return [body.op("Add", y, residual) if residual else y]


def _choose(body: Body, attrs: dict[str, Any], inputs: tuple[str, str, str]) -> tuple[str, str]:
    """Return each token's experts, int64[T, k], and their weights, f32[T, k].

    TopK takes the lower of equal ones first, as the kernels do.
    """
    scores, choice, factor = inputs
    sigmoid = attrs["gating"] == "sigmoid"
    gated = body.op("Sigmoid", scores) if sigmoid else body.op("Softmax", scores, axis=1)
    keys = gated if sigmoid else scores
    if choice and sigmoid:
        keys = body.op("Add", gated, choice)
    _, chosen = body.node("TopK", [keys, body.constant([attrs["chosen"]])], 2, "", axis=1)
    weights = body.op("GatherElements", gated, chosen, axis=1)
    if attrs["normalise"]:
        total = body.op("ReduceSum", weights, [1], keepdims=1)
        weights = body.op("Div", weights, body.op("Add", total, float(attrs.get("epsilon", 0.0))))
    weights = body.op("Mul", weights, float(attrs.get("scale", 1.0)))
    return chosen, body.op("Mul", weights, body.op("Gather", factor, chosen, axis=0)) if factor else weights


def _step(attrs: dict[str, Any], given: tuple[str, str, str, str]) -> onnx.GraphProto:
    """Return the output of one token, whose values are read from outside."""
    body = Body("token")
    x, packed, chosen, weights = given
    width, cols, k = attrs["rows"], attrs["cols"], attrs["chosen"]
    formats = tuple(attrs["formats"].split(","))
    biased = bool(attrs.get("biases"))
    places = expert_places(formats, width, cols, biased=biased)
    mine = body.op("Gather", packed, body.op("Gather", chosen, "index", axis=0), axis=0)
    bounds = ((places.gate, places.up), (places.up, places.down), (places.down, places.end))
    shapes = ((width, cols), (width, cols), (cols, width))
    parts = [
        _part(body, mine, bound, format, shape, k)
        for bound, format, shape in zip(bounds, formats, shapes, strict=True)
    ]
    row = body.reshape(body.op("Gather", x, "index", axis=0), 1, cols)
    gate, up = (_all(body, row, *of, (width, cols), k) for of in zip(parts[:2], formats[:2], strict=True))
    biases = _biases(body, mine, places.biases, 2 * width + cols, k) if biased else ""
    if biases:
        gate = body.op("Add", gate, body.slice(biases, 0, width, 1))
        up = body.op("Add", up, body.slice(biases, width, 2 * width, 1))
    inner = gated(body, attrs["activation"], gate, up)
    outer = _each(body, inner, parts[2], formats[2], (k, width, cols))
    if biases:
        outer = body.op("Add", outer, body.slice(biases, 2 * width, 2 * width + cols, 1))
    weight = body.reshape(body.op("Gather", weights, "index", axis=0), 1, k)
    y = body.reshape(body.op("MatMul", weight, outer), cols)
    more = body.op("Identity", "more")
    value = helper.make_tensor_value_info
    taken = [value("index", TensorProto.INT64, []), value("more", TensorProto.BOOL, [])]
    results = [value(more, TensorProto.BOOL, []), value(y, TensorProto.FLOAT, [cols])]
    return helper.make_graph(body.nodes, "token", taken, results)


def _part(body: Body, mine: str, bounds: tuple[int, int], format: str, shape: tuple[int, int], k: int) -> str:
    """Return one matrix of each of k experts, one below the other: u8[k * tiles, bytes of a tile]."""
    tiles, of_a_tile = FORMATS[format].packed_shape(*shape)
    start = bounds[0]
    return body.reshape(body.slice(mine, start, start + tiles * of_a_tile, 1), k * tiles, of_a_tile)


def _biases(body: Body, mine: str, start: int, count: int, k: int) -> str:
    """Return the biases of each of k experts, and the padding up to a whole tile: f32[k, count or more]."""
    padded = -(-count // TILE) * TILE
    raw = body.slice(mine, start, start + 4 * padded, 1)
    return body.reshape(body.op(UNPACK + "f32", raw, domain=DOMAIN), k, padded)


def _all(body: Body, row: str, packed: str, format: str, shape: tuple[int, int], k: int) -> str:
    """Return one token's x[1, cols] times the matrix of each expert: f32[k, width]."""
    width, cols = shape
    tiles = -(-width // TILE)
    y = body.reshape(product(body, row, packed, format, k * tiles * TILE, cols), k, tiles * TILE)
    return body.slice(y, 0, width, 1) if width % TILE else y


def _each(body: Body, inner: str, packed: str, format: str, sizes: tuple[int, int, int]) -> str:
    """Return row i of inner[k, width] times the matrix of expert i: f32[k, cols]."""
    k, width, cols = sizes
    tiles = -(-cols // TILE)
    rows = body.reshape(inner, k, 1, width)
    if FORMATS[format].is_float:
        y = body.op("MatMul", rows, _by_expert(body, float_columns(body, packed, format), width, k, tiles))
    else:
        weights, minima = quantised_columns(body, packed, format, width)
        y = body.op("MatMul", rows, _by_expert(body, weights, width, k, tiles))
        if minima:
            group = UNPACKERS[format].group
            sums = body.op("ReduceSum", body.reshape(inner, k, width // group, group), [2], keepdims=0)
            sums = body.reshape(sums, k, 1, width // group)
            y = body.op("Add", y, body.op("MatMul", sums, _by_expert(body, minima, width // group, k, tiles)))
    return body.slice(body.reshape(y, k, tiles * TILE), 0, cols, 1)


def _by_expert(body: Body, columns: str, inputs: int, k: int, tiles: int) -> str:
    """Return f32[inputs, k * tiles * 16] as f32[k, inputs, tiles * 16]."""
    return body.op("Transpose", body.reshape(columns, inputs, k, tiles * TILE), perm=[1, 0, 2])
