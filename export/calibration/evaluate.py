"""Runs the unfused graph of a model in NumPy, in float32, with unquantised weights.

All windows of text go through a layer together, so every weight is read once, a few rows at a time. Memory is
a few arrays f32[T, widest layer]. Only chains of tokens are supported; there is no KV cache and no sampling.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from edgedec.core.progress import Steps
from edgedec.export.blocks.head_rows import FIRST
from edgedec.export.calibration.experts import expert_weights
from edgedec.export.calibration.recurrent import RECURRENT, sigmoid
from edgedec.export.model import ExpertsWeight, ExportModel, PackedWeight, VectorWeight, attributes

F32 = NDArray[np.float32]
_CHUNK = 4 << 20
"""Elements of a matrix read at a time."""


_MATRIX = {"QuantLinear": 3, "Experts": 2}
"""Input of ops with their matrices, which take the time."""
_CACHE, _SINKS = 4, 9
"""Inputs of an attention: its cache, and a logit of each head that takes part in the softmax."""

Floats = Callable[[PackedWeight, int, int], F32]
"""Returns some rows, from one to before another, of the tensor that holds a weight: f32[rows, K]."""

Watch = Callable[[PackedWeight, F32], None]
"""Function called with every matrix and all of its inputs f32[T, K]."""


def evaluate(
    model: ExportModel,
    floats: Floats,
    windows: Sequence[Sequence[int]],
    watch: Watch,
    progress: Steps,
) -> None:
    """Run one pass over ``windows`` of tokens and call ``watch`` with the inputs of every matrix.

    Each window begins with an empty KV cache. The head's inputs are watched; its logits are not computed.
    ``progress(done, total)`` counts bytes of weights as f32. Raises the errors of ``floats``.
    """
    run = Run(model, floats, windows, watch)
    sizes = [_bytes(model, node) for node in model.nodes]
    last = {name: i for i, node in enumerate(model.nodes) for name in node.input}
    for index, node in enumerate(model.nodes):
        run.step(node)
        for name in node.input:
            if last[name] == index:
                run.values.pop(name, None)
        progress(sum(sizes[: index + 1]), sum(sizes))


def _bytes(model: ExportModel, node: onnx.NodeProto) -> int:
    weight = model.weights.get(node.input[_MATRIX[node.op_type]]) if node.op_type in _MATRIX else None
    if isinstance(weight, ExpertsWeight):
        return 4 * weight.count * sum(matrix.rows * matrix.cols for matrix in weight.first)
    return 4 * weight.rows * weight.cols if isinstance(weight, PackedWeight) else 0


class Run:
    """Values of a graph's nodes, over all windows side by side."""

    def __init__(
        self, model: ExportModel, floats: Floats, windows: Sequence[Sequence[int]], watch: Watch
    ) -> None:
        self.model, self.floats, self.watch = model, floats, watch
        ends = np.cumsum([len(window) for window in windows]).tolist()
        self.spans = [slice(end - len(window), end) for end, window in zip(ends, windows, strict=True)]
        self.keys: dict[tuple[str, int], tuple[F32, F32]] = {}
        """Keys and values of each layer, by its cache and its place there."""
        self.values: dict[str, NDArray[Any]] = {
            "tokens": np.concatenate([np.asarray(window, dtype=np.int64) for window in windows]),
            "positions": np.concatenate([np.arange(len(window)) for window in windows]),
        }

    def step(self, node: onnx.NodeProto) -> None:
        """Compute the output of one node."""
        attrs, names = attributes(node), list(node.input)
        kind = node.op_type
        out: NDArray[Any] | list[NDArray[Any]]
        if node.name.startswith(FIRST):
            self.values[node.output[0]] = np.zeros(1, dtype=np.float32)  # all rows are asked for
            return
        if kind == "HeadTopK":
            self.watch(self.matrix(names[1]), self.values[names[0]])
            return
        if kind == "QuantEmbedding":
            out = self.embedding(self.matrix(names[1]), attrs)
        elif kind == "QuantLinear":
            out = self.linear(self.matrix(names[3]), self.values[names[0]], names[1])
        elif kind == "TreeAttention":
            out = self.attention(attrs, names)
        elif kind == "Experts":
            out = self.experts(attrs, names)
        elif kind in RECURRENT:
            out = self.recurrent(kind, attrs, names)
        else:
            inputs = [self.value(name) for name in names if name != "rows"]
            out = _PLAIN[kind](attrs, *inputs)
        for name, part in zip(node.output, out if isinstance(out, list) else [out], strict=True):
            self.values[name] = part.astype(np.float32, copy=False)

    def value(self, name: str) -> NDArray[Any]:
        weight = self.model.weights.get(name)
        return weight.values if isinstance(weight, VectorWeight) else self.values[name]

    def matrix(self, name: str) -> PackedWeight:
        weight = self.model.weights[name]
        assert isinstance(weight, PackedWeight)
        return weight

    def read(self, weight: PackedWeight, start: int, stop: int) -> F32:
        """Return rows of a matrix."""
        found: F32 = weight.read(partial(self.floats, weight), start, stop)
        return found

    def embedding(self, table: PackedWeight, attrs: dict[str, Any]) -> F32:
        tokens = self.values["tokens"]
        rows = {token: self.floats(table, token, token + 1)[0] for token in np.unique(tokens).tolist()}
        x = np.stack([rows[token] for token in tokens.tolist()])
        return x * np.float32(attrs["scale"])

    def linear(self, weight: PackedWeight, x: F32, bias: str) -> F32:
        self.watch(weight, x)
        step = max(1, _CHUNK // weight.cols)
        y = np.empty((len(x), weight.rows), dtype=np.float32)
        for start in range(0, weight.rows, step):
            stop = min(start + step, weight.rows)
            y[:, start:stop] = x @ self.read(weight, start, stop).T
        return y + self.value(bias) if bias else y

    def attention(self, attrs: dict[str, Any], names: list[str]) -> F32:
        """Attend with the keys of this layer, or with those of the one whose keys it shares."""
        qkv, rotary = self.value(names[0]), self.value(names[1])
        norms, place = [*names[5:7], "", ""][:2], (names[_CACHE], attrs["layer"])
        sinks = self.value(names[_SINKS]) if len(names) > _SINKS else None
        heads, kv, dim = attrs["num_heads"], attrs["num_kv_heads"], attrs["head_dim"]

        def turned(x: F32, norm: str) -> F32:
            x = _norm(attrs, x, self.value(norm)) if norm else x
            return rotate(x, rotary, bool(attrs["interleaved"]))

        q, k, v = np.split(qkv.reshape(len(qkv), -1, dim), [heads, heads + kv], axis=1)
        q = turned(q, norms[0])
        if not attrs.get("shared"):
            one = np.ones(1, dtype=np.float32)
            self.keys[place] = turned(k, norms[1]), _norm(attrs, v, one) if attrs.get("value_norm") else v
        k, v = self.keys[place]
        mixed = np.empty((len(qkv), heads, dim), dtype=np.float32)
        for span in self.spans:
            for head in range(heads):
                shared = head * kv // heads
                sink = None if sinks is None else sinks[head]
                mixed[span, head] = _attend(attrs, q[span, head], k[span, shared], v[span, shared], sink)
        return mixed.reshape(len(qkv), -1)

    def experts(self, attrs: dict[str, Any], names: list[str]) -> F32:
        """Compute each expert for the tokens that choose it."""
        x, scores, weight = self.value(names[0]), self.value(names[1]), self.model.weights[names[2]]
        assert isinstance(weight, ExpertsWeight)
        choice, factor = (self.value(name) if name else None for name in [*names[3:5], "", ""][:2])
        weights = expert_weights(attrs, scores, choice, factor)
        out = np.zeros_like(x)
        for expert in range(weight.count):
            tokens = np.flatnonzero(weights[:, expert])
            gate, up, down = weight.matrices(expert)
            both = [self.linear(matrix, x[tokens], "") for matrix in (gate, up)]
            biases = [np.zeros(1, np.float32)] * 3
            if weight.biases is not None:
                biases = np.split(weight.biases[expert], [gate.rows, gate.rows + up.rows])
            inner = _gated(attrs["activation"], both[0] + biases[0], both[1] + biases[1])
            mixed = self.linear(down, inner, "") + biases[2]
            out[tokens] += weights[tokens, expert, None] * mixed
        return out

    def recurrent(self, kind: str, attrs: dict[str, Any], names: list[str]) -> F32:
        first, compute = RECURRENT[kind]
        projected, weights = self.value(names[0]), [self.value(name) for name in names[first:]]
        return np.concatenate([compute(attrs, projected[span], weights) for span in self.spans])


def _attend(attrs: dict[str, Any], q: F32, k: F32, v: F32, sink: np.float32 | None) -> F32:
    mixed: F32 = attention_weights(attrs, attention_scores(attrs, q, k), sink) @ v
    return mixed


def attention_scores(attrs: dict[str, Any], q: F32, k: F32) -> F32:
    """Return the capped scores f32[T, T] of one head."""
    scores: F32 = q @ k.T * np.float32(attrs["scale"])
    if cap := attrs.get("softcap", 0.0):
        scores = np.float32(cap) * np.tanh(scores / np.float32(cap))
    return scores


def attention_weights(attrs: dict[str, Any], scores: F32, sink: np.float32 | None) -> F32:
    """Return the weights f32[T, T] of the tokens that each one sees; ``scores`` is overwritten."""
    distance = np.arange(len(scores))[:, None] - np.arange(len(scores))
    window = attrs["window"] or len(scores)
    scores[(distance < 0) | (distance >= window)] = -np.inf
    most = scores.max(axis=1, keepdims=True)
    most = most if sink is None else np.maximum(most, sink)
    weights = np.exp(scores - most)
    total = weights.sum(axis=1, keepdims=True) + (0 if sink is None else np.exp(sink - most))
    found: F32 = weights / total
    return found


def rotate(x: F32, rotary: F32, interleaved: bool) -> F32:
    half = x.shape[2] // 2
    cos, sin = rotary[:, None, :half], rotary[:, None, half:]
    pairs = (slice(0, None, 2), slice(1, None, 2)) if interleaved else (slice(half), slice(half, None))
    first, second = x[..., pairs[0]], x[..., pairs[1]]
    out = np.empty_like(x)
    out[..., pairs[0]] = first * cos - second * sin
    out[..., pairs[1]] = second * cos + first * sin
    return out


def _norm(attrs: dict[str, Any], x: F32, weight: F32) -> F32:
    y: F32 = x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + np.float32(attrs["epsilon"])) * weight
    return y


def _rotary_table(_attrs: dict[str, Any], positions: NDArray[np.int64], frequencies: F32) -> NDArray[Any]:
    angles = positions[:, None].astype(np.float64) * frequencies.astype(np.float64)
    return np.concatenate([np.cos(angles), np.sin(angles)], axis=1)


def _gelu(x: F32) -> F32:
    inner = np.float32(np.sqrt(2 / np.pi)) * (x + np.float32(0.044715) * x**3)
    y: F32 = 0.5 * x * (1 + np.tanh(inner))
    return y


def _gated(activation: str, gate: F32, up: F32) -> F32:
    if activation != "clamped_silu":
        return _ACTIVATIONS[activation](gate) * up
    gate, up = np.minimum(gate, np.float32(7)), np.clip(up, np.float32(-7), np.float32(7))
    return gate * sigmoid(np.float32(1.702) * gate) * (up + 1)


_ACTIVATIONS: dict[str, Callable[[F32], F32]] = {
    "sigmoid": sigmoid,
    "silu": lambda x: x * sigmoid(x),
    "gelu_tanh": _gelu,
}
_PLAIN: dict[str, Callable[..., NDArray[Any] | list[NDArray[Any]]]] = {
    "RMSNorm": _norm,
    "RotaryTable": _rotary_table,
    "Sigmoid": lambda attrs, x: sigmoid(x),
    "Gelu": lambda attrs, x: _gelu(x),
    "GatedProduct": lambda attrs, x, gate: _gated(attrs["activation"], gate, x),
    "Constant": lambda attrs: np.asarray(attrs["value_ints"]),
    "Reshape": lambda attrs, x, shape: x.reshape(shape.astype(np.int64)),
    "Split": lambda attrs, x: np.split(x, attrs["num_outputs"], axis=1),
    "Add": lambda attrs, a, b: a + b,
    "Mul": lambda attrs, a, b: a * b,
    "Concat": lambda attrs, *parts: np.concatenate(parts, axis=1),
    "Gather": lambda attrs, x, *_: x,  # every row is selected
    "Slice": lambda attrs, x, *_: x,
}
"""Ops without matrices: functions from attributes and inputs to the result."""
