"""Derivatives of a model's ops in NumPy, from those of its outputs to those of its inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgedec.export.calibration.evaluate import F32, attention_scores, attention_weights, rotate
from edgedec.export.calibration.recurrent import sigmoid

Inputs = Sequence[NDArray[Any]]


def attention(
    attrs: dict[str, Any], qkv: F32, rotary: F32, norms: Sequence[F32 | None], spans: Sequence[slice], dy: F32
) -> F32:
    """Return the derivatives of q, k and v, f32[T, rows of all]; ``norms`` are those of q and k.

    Sinks change weights alone: no weight is theirs in the sums.
    """
    heads, kv, dim = attrs["num_heads"], attrs["num_kv_heads"], attrs["head_dim"]
    raw = np.split(qkv.reshape(len(qkv), -1, dim), [heads, heads + kv], axis=1)
    interleaved = bool(attrs["interleaved"])
    normed = [x if w is None else _normed(attrs, x, w) for x, w in zip(raw, norms, strict=False)]
    q, k = (rotate(x, rotary, interleaved) for x in normed)
    v, above = raw[2], dy.reshape(len(dy), heads, dim)
    grads = [np.zeros_like(q), np.zeros_like(k), np.zeros_like(v)]
    for span in spans:
        for head in range(heads):
            shared = head * kv // heads
            found = _head(attrs, q[span, head], k[span, shared], v[span, shared], above[span, head])
            for grad, place, part in zip(grads, (head, shared, shared), found, strict=True):
                grad[span, place] += part
    half = rotary.shape[1] // 2
    back = np.concatenate([rotary[:, :half], -rotary[:, half:]], axis=1)
    for at, weight in enumerate(norms):
        grads[at] = rotate(grads[at], back, interleaved)
        if weight is not None:
            grads[at] = norm(attrs, [raw[at], weight], [grads[at]])[0]
    return np.concatenate(grads, axis=1).reshape(qkv.shape)


def _head(attrs: dict[str, Any], q: F32, k: F32, v: F32, dy: F32) -> tuple[F32, F32, F32]:
    scores = attention_scores(attrs, q, k)
    slope = np.float32(attrs["scale"])
    if cap := attrs.get("softcap", 0.0):
        slope = slope * (1 - np.square(scores / np.float32(cap)))
    weights = attention_weights(attrs, scores, None)
    through = dy @ v.T
    wanted = weights * (through - (through * weights).sum(axis=1, keepdims=True)) * slope
    return wanted @ k, wanted.T @ q, weights.T @ dy


def _normed(attrs: dict[str, Any], x: F32, weight: F32) -> F32:
    return x * _reciprocal(attrs, x) * weight


def _reciprocal(attrs: dict[str, Any], x: F32) -> F32:
    found: F32 = 1 / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + np.float32(attrs["epsilon"]))
    return found


def norm(attrs: dict[str, Any], inputs: Inputs, above: Sequence[F32]) -> list[F32]:
    x, weight = inputs
    scaled, r = above[0] * weight, _reciprocal(attrs, x)
    return [r * scaled - x * r**3 * np.mean(scaled * x, axis=-1, keepdims=True)]


def _gelu(_attrs: dict[str, Any], inputs: Inputs, above: Sequence[F32]) -> list[F32]:
    x, root = inputs[0], np.float32(np.sqrt(2 / np.pi))
    bent = np.tanh(root * (x + np.float32(0.044715) * x**3))
    inner = root * (1 + np.float32(3 * 0.044715) * x * x)
    return [above[0] * (0.5 * (1 + bent) + 0.5 * x * (1 - bent * bent) * inner)]


def _sigmoid(_attrs: dict[str, Any], inputs: Inputs, above: Sequence[F32]) -> list[F32]:
    y = sigmoid(inputs[0])
    return [above[0] * y * (1 - y)]


def _concat(_attrs: dict[str, Any], inputs: Inputs, above: Sequence[F32]) -> list[F32]:
    return np.split(above[0], np.cumsum([part.shape[1] for part in inputs])[:-1], axis=1)


BACKWARD: dict[str, Callable[[dict[str, Any], Inputs, Sequence[F32]], Sequence[F32]]] = {
    "RMSNorm": norm,
    "Gelu": _gelu,
    "Sigmoid": _sigmoid,
    "Concat": _concat,
    "Add": lambda attrs, inputs, above: [above[0], above[0]],
    "Mul": lambda attrs, inputs, above: [above[0] * inputs[1], above[0] * inputs[0]],
    "Gather": lambda attrs, inputs, above: [above[0]],  # every row is selected
}
"""Ops without matrices: from attributes, inputs and the derivatives of outputs to those of inputs."""
