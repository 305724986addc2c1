"""Recurrent ops in NumPy, over a chain of tokens from an empty state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

F32 = NDArray[np.float32]
_SMALLEST = np.float32(1e-6)


def gated_delta(attrs: dict[str, Any], projected: F32, weights: list[F32]) -> F32:
    """Return the outputs f32[T, Hv * dv] of a Gated DeltaNet layer; see ``kernels/gated_delta``."""
    conv, decay, dt_bias, norm = weights
    k_heads, v_heads, k_dim, v_dim = (attrs[name] for name in ("k_heads", "v_heads", "k_dim", "v_dim"))
    count, keys = len(projected), k_heads * k_dim
    ends = np.cumsum([len(conv), v_heads * v_dim, v_heads])
    mixed, z, b, a = np.split(projected, ends, axis=1)
    q, k, v = np.split(_silu(_convolved(mixed, conv)), [keys, 2 * keys], axis=1)
    shared = np.arange(v_heads) % k_heads if attrs["tiled"] else np.arange(v_heads) * k_heads // v_heads
    q, k = (_unit(part.reshape(count, k_heads, k_dim))[:, shared] for part in (q, k))
    q, v = q / np.sqrt(np.float32(k_dim)), v.reshape(count, v_heads, v_dim)
    kept, beta = np.exp(decay * np.logaddexp(np.float32(0), a + dt_bias)), sigmoid(b)
    state, out = np.zeros((v_heads, k_dim, v_dim), np.float32), np.empty_like(v)
    for token in range(count):
        state *= kept[token, :, None, None]
        known = np.matmul(k[token, :, None], state)[:, 0]
        state += k[token, :, :, None] * (beta[token, :, None] * (v[token] - known))[:, None]
        out[token] = np.matmul(q[token, :, None], state)[:, 0]
    scale = np.sqrt(np.mean(out * out, axis=-1, keepdims=True) + np.float32(attrs["epsilon"]))
    gated: F32 = (out / scale * norm).reshape(count, -1) * _silu(z)
    return gated


def short_conv(_attrs: dict[str, Any], projected: F32, weights: list[F32]) -> F32:
    """Return the outputs f32[T, H] of a short convolution; see ``kernels/short_conv``."""
    b, c, x = np.split(projected, 3, axis=1)
    return c * _convolved(b * x, weights[0])


RECURRENT: dict[str, tuple[int, Callable[[dict[str, Any], F32, list[F32]], F32]]] = {
    "GatedDelta": (6, gated_delta),
    "ShortConv": (5, short_conv),
}
"""By op: the position of its first weight, and the function."""


def sigmoid(x: F32) -> F32:
    """Return 1 / (1 + exp(-x)) without overflow."""
    y: F32 = 0.5 * (1 + np.tanh(0.5 * x))
    return y


def _silu(x: F32) -> F32:
    return x * sigmoid(x)


def _unit(x: F32) -> F32:
    y: F32 = x / np.sqrt(np.sum(x * x, axis=-1, keepdims=True) + _SMALLEST)
    return y


def _convolved(x: F32, weight: F32) -> F32:
    """Return each channel's weighted sum over its newest tokens; the last tap meets the token itself."""
    y = np.zeros_like(x)
    for back in range(weight.shape[1]):
        y[back:] += x[: len(x) - back] * weight[:, -1 - back]
    return y
