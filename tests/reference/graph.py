"""Runs the graph of a bundle in NumPy floats: what the ops mean, without kernels and without activation
rounding.

Only chains are run (a whole prompt from an empty cache); the cache is whatever this pass writes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper

from edgedec.export.blocks.head_rows import FIRST
from edgedec.kernels.packing.layout import dequantise
from tests.reference.experts import choose, experts
from tests.reference.recurrent import gated_delta, gated_product, short_conv

Array = NDArray[Any]


def graph_logits(bundle: Path, tokens: Sequence[int], *, cache: type[np.floating[Any]] = np.float32) -> Array:
    """Logits f32[T, V] of a pass over ``tokens``, computed node by node from model.onnx and weights.bin.

    Keys and values are rounded to ``cache``: not at all by default.
    """
    return _run(bundle, tokens, cache)[0]["logits"]


class Routed(NamedTuple):
    """Logits f32[T, V]; by the name of a mixture, its scores f32[T, experts] and its choices int[T, k]."""

    logits: Array
    scores: dict[str, Array]
    chosen: dict[str, Array]


def graph_routed(bundle: Path, tokens: Sequence[int], chosen: Mapping[str, Array]) -> Routed:
    """A pass as of ``graph_logits`` whose mixtures compute the experts ``chosen``.

    Scores and choices are those that the routers find there.
    """
    values, nodes = _run(bundle, tokens, np.float32, chosen)
    mixtures = [node for node in nodes if node.name in chosen]
    return Routed(
        values["logits"],
        {node.name: values[node.input[1]] for node in mixtures},
        {node.name: choices(node, values[node.input[1]], values) for node in mixtures},
    )


def choices(node: onnx.NodeProto, scores: Array, values: Mapping[str, Array]) -> Array:
    """The experts that a mixture chooses by ``scores``; ``values`` has its bias, if it has one."""
    bias = node.input[3] if len(node.input) > 3 else ""
    return choose(attributes(node), scores, values[bias] if bias else np.zeros(0, np.float32))


def graph_attention(bundle: Path, tokens: Sequence[int]) -> Array:
    """Softmax weights f32[L, heads, T, T] that each token (third axis) of ``tokens`` gives to each."""
    values, nodes = _run(bundle, tokens, np.float16)
    return np.stack(
        [
            _weights(attributes(node), *[values[name] for name in node.input])[0]
            for node in nodes
            if node.op_type == "TreeAttention"
        ]
    )


def _run(
    bundle: Path,
    tokens: Sequence[int],
    cache: type[np.floating[Any]],
    chosen: Mapping[str, Array] | None = None,
) -> tuple[dict[str, Array], list[onnx.NodeProto]]:
    """All values of the graph by name, and its nodes."""
    graph = onnx.load(str(bundle / "model.onnx"), load_external_data=False).graph
    values: dict[str, Array] = {"": np.zeros(0, dtype=np.float32)}
    values.update({tensor.name: load_initialiser(bundle, tensor) for tensor in graph.initializer})
    count = len(tokens)
    values["tokens"] = np.asarray(tokens, dtype=np.int64)
    values["positions"] = values["rows"] = np.arange(count, dtype=np.int64)
    values |= {"parents": values["rows"] - 1, "length": np.zeros(1), "want_logits": np.ones(1)}
    values["kv_cache"] = values["kv_window"] = np.zeros(0, dtype=cache)
    nothing = np.zeros(0, dtype=np.float32)
    values |= dict.fromkeys(("applied", "delta_trail", "delta_state", "conv_trail"), nothing)
    for node in graph.node:
        if node.name.startswith(FIRST):
            values[node.output[0]] = values["rows"] if node.name == f"{FIRST}_rows" else np.zeros(1)
            continue  # all rows are asked for
        if node.op_type == "Concat":
            continue  # what a caller without kernels would put into its cache
        compute = OPS[node.op_type]
        if node.name in (chosen or {}):
            compute = partial(compute, chosen=chosen[node.name])
        found = compute(attributes(node), *[values[name] for name in node.input])
        outputs = [node.output[-1]] if node.op_type == "HeadTopK" else node.output
        values.update(zip(outputs, found if isinstance(found, list) else [found], strict=False))
    return values, list(graph.node)


def attributes(node: onnx.NodeProto) -> dict[str, Any]:
    """Its attributes as Python values, texts as bytes."""
    return {a.name: helper.get_attribute_value(a) for a in node.attribute}


def load_initialiser(bundle: Path, tensor: onnx.TensorProto) -> Array:
    """The array of an initialiser, external or not."""
    dtype = helper.tensor_dtype_to_np_dtype(tensor.data_type)
    if tensor.data_location != onnx.TensorProto.EXTERNAL:
        return np.frombuffer(tensor.raw_data, dtype=dtype).reshape(tuple(tensor.dims))
    place = {entry.key: entry.value for entry in tensor.external_data}
    data = np.fromfile(
        bundle / place["location"], np.uint8, int(place["length"]), offset=int(place["offset"])
    )
    return data.view(dtype).reshape(tuple(tensor.dims))


def _embedding(attrs: dict[str, Any], tokens: Array, table: Array) -> Array:
    weights = dequantise(attrs["format"].decode(), table, attrs["rows"], attrs["cols"])
    return weights[tokens] * np.float32(attrs["scale"])


def _norm(attrs: dict[str, Any], x: Array, weight: Array, residual: Array | None = None) -> Array:
    y: Array = x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + np.float32(attrs["epsilon"])) * weight
    return y if residual is None else y + residual


def _formats(attrs: dict[str, Any]) -> list[str]:
    names: str = attrs["formats"].decode()
    return names.split(",")


def _linear(attrs: dict[str, Any], x: Array, bias: Array, residual: Array, *weights: Array) -> Array:
    parts = [
        x @ dequantise(format, weight, rows, attrs["cols"]).T
        for format, rows, weight in zip(_formats(attrs), attrs["rows"], weights, strict=True)
    ]
    y = np.concatenate(parts, axis=1)
    y = y + bias if bias.size else y
    return y + residual if residual.size else y


def _gated(attrs: dict[str, Any], x: Array, gate: Array, up: Array) -> Array:
    halves = [
        x @ dequantise(format, weight, attrs["rows"], attrs["cols"]).T
        for format, weight in zip(_formats(attrs), (gate, up), strict=True)
    ]
    g = halves[0]
    active: Array = g / (1 + np.exp(-g))
    if attrs["activation"] == b"gelu_tanh":
        active = 0.5 * g * (1 + np.tanh(np.float32(np.sqrt(2 / np.pi)) * (g + 0.044715 * g**3)))
    return active * halves[1]


def _rotary(_attrs: dict[str, Any], positions: Array, frequencies: Array) -> Array:
    angles = positions[:, None].astype(np.float64) * frequencies.astype(np.float64)
    return np.concatenate([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)


def _attention(attrs: dict[str, Any], *inputs: Array) -> list[Array]:
    """The mixed values, and the keys and values [2, T, kv heads, d] unless they are another layer's."""
    weights, both = _weights(attrs, *inputs)
    v = np.repeat(both[1].astype(np.float32), len(weights) // both.shape[2], axis=1)
    mixed = np.einsum("hij,jhd->ihd", weights, v).reshape(len(v), -1).astype(np.float32)
    return [mixed] if attrs.get("shared") else [mixed, both]


def _weights(
    attrs: dict[str, Any],
    qkv: Array,
    rotary: Array,
    parents: Array,
    _length: Array,
    cache: Array,
    *optional: Array,
) -> tuple[Array, Array]:
    """Softmax weights [heads, T, T], and the keys and values [2, T, kv heads, d] that they are for."""
    q_norm, k_norm, _, shared, sinks = [*optional, *[np.zeros(0)] * 5][:5]
    heads, kv, dim, count = attrs["num_heads"], attrs["num_kv_heads"], attrs["head_dim"], len(qkv)

    def turned(part: Array, norm: Array) -> Array:
        return _rotate(_norm(attrs, part, norm) if norm.size else part, rotary, bool(attrs["interleaved"]))

    if attrs.get("shared"):
        q, both = qkv.reshape(count, heads, dim), shared
    else:
        q, k, v = np.split(qkv.reshape(count, -1, dim), [heads, heads + kv], axis=1)
        v = _norm(attrs, v, np.ones(dim, np.float32)) if attrs.get("value_norm") else v
        both = np.stack([turned(k, k_norm), v]).astype(cache.dtype)
    q, k = turned(q, q_norm), np.repeat(both[0].astype(np.float32), heads // kv, axis=1)
    distance = np.arange(count)[:, None] - np.arange(count)[None, :]
    seen = (distance >= 0) & ((distance < attrs["window"]) | (attrs["window"] == 0))
    scores = _capped(attrs, np.einsum("ihd,jhd->hij", q, k) * np.float32(attrs["scale"]))
    scores = np.where(seen, scores, -np.inf)
    if sinks.size:
        scores = np.concatenate([scores, np.tile(sinks[:, None, None], (1, count, 1))], axis=-1)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = (weights / weights.sum(axis=-1, keepdims=True))[..., :count]
    assert (parents == np.arange(count) - 1).all()
    return weights, both


def _rotate(x: Array, rotary: Array, interleaved: bool) -> Array:
    cos, sin = np.split(rotary[:, None, :], 2, axis=2)
    half = x.shape[2] // 2
    first, second = (x[..., 0::2], x[..., 1::2]) if interleaved else (x[..., :half], x[..., half:])
    turned = first * cos - second * sin, second * cos + first * sin
    if interleaved:
        return np.stack(turned, axis=3).reshape(x.shape)
    return np.concatenate(turned, axis=2)


def _head(attrs: dict[str, Any], x: Array, table: Array, *_others: Array) -> Array:
    return _capped(attrs, x @ dequantise(attrs["format"].decode(), table, attrs["rows"], attrs["cols"]).T)


def _capped(attrs: dict[str, Any], x: Array) -> Array:
    cap = np.float32(attrs.get("softcap", 0))
    return cap * np.tanh(x / cap) if cap else x


OPS: dict[str, Callable[..., Array]] = {
    "QuantEmbedding": _embedding,
    "RMSNorm": _norm,
    "QuantLinear": _linear,
    "GatedMLP": _gated,
    "RotaryTable": _rotary,
    "TreeAttention": _attention,
    "GatedDelta": gated_delta,
    "ShortConv": short_conv,
    "GatedProduct": gated_product,
    "Experts": experts,
    "HeadTopK": _head,
    "Constant": lambda attrs: np.asarray(attrs["value_ints"]),
    "Reshape": lambda _attrs, x, shape: x.reshape(shape),
    "Split": lambda attrs, x: np.split(x, attrs["num_outputs"], axis=attrs["axis"]),
    "Slice": lambda _attrs, x, *_: x,
    "Mul": lambda _attrs, a, b: a * b,
    "Gather": lambda attrs, x, rows: np.take(x, rows, axis=attrs["axis"]),
}
"""Op -> its main output (the head's logits), from the node's attributes and inputs."""
