"""Recurrent ops in NumPy floats, over a chain from an empty state: what GatedDelta and ShortConv mean."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.reference.model import gelu_tanh, silu

Array = NDArray[Any]


def gated_delta(attrs: dict[str, Any], projected: Array, *others: Array) -> Array:
    """Outputs f32[T, Hv * dv]. ``others`` end with the convolution, decay, dt bias and norm."""
    conv, decay, dt_bias, weight = others[-4:]
    hk, hv, dk, dv = (int(attrs[name]) for name in ("k_heads", "v_heads", "k_dim", "v_dim"))
    count, channels = len(projected), 2 * hk * dk + hv * dv
    ends = np.cumsum([channels, hv * dv, hv])
    mixed, z, b, a = np.split(projected, ends, axis=1)
    q, k, v = np.split(silu(causal_conv(mixed, conv)), [hk * dk, 2 * hk * dk], axis=1)
    q, k = (unit(part.reshape(count, hk, dk)) for part in (q, k))
    spread = np.arange(hv) % hk if attrs.get("tiled") else np.arange(hv) // (hv // hk)
    q, k, v = q[:, spread] / np.sqrt(dk, dtype=projected.dtype), k[:, spread], v.reshape(count, hv, dv)
    keep, beta = np.exp(decay * np.logaddexp(0, a + dt_bias)), 1 / (1 + np.exp(-b))
    state, out = np.zeros((hv, dk, dv), projected.dtype), np.empty((count, hv, dv), projected.dtype)
    for t in range(count):
        state = state * keep[t][:, None, None]
        remembered = np.einsum("hij,hi->hj", state, k[t])
        state = state + np.einsum("hi,hj->hij", k[t], beta[t][:, None] * (v[t] - remembered))
        out[t] = np.einsum("hij,hi->hj", state, q[t])
    mean = np.mean(out * out, axis=-1, keepdims=True)
    normed = out / np.sqrt(mean + projected.dtype.type(attrs["epsilon"])) * weight
    return normed.reshape(count, -1) * silu(z)


def short_conv(_attrs: dict[str, Any], projected: Array, *others: Array) -> Array:
    """Outputs f32[T, H]: C times the convolution of B times x."""
    b, c, x = np.split(projected, 3, axis=1)
    return c * causal_conv(b * x, others[-1])


def gated_product(attrs: dict[str, Any], values: Array, gate: Array) -> Array:
    active = {b"sigmoid": lambda x: 1 / (1 + np.exp(-x)), b"silu": silu, b"gelu_tanh": gelu_tanh}
    found: Array = values * active[attrs["activation"]](gate)
    return found


def causal_conv(x: Array, weight: Array) -> Array:
    """Each channel's sum over its newest tokens; the last tap of ``weight`` [channels, K] is the token's."""
    taps = weight.shape[1]
    padded = np.concatenate([np.zeros((taps - 1, x.shape[1]), x.dtype), x])
    return sum(padded[tap : tap + len(x)] * weight[:, tap] for tap in range(taps))  # type: ignore[return-value]


def unit(x: Array) -> Array:
    found: Array = x / np.sqrt(np.sum(x * x, axis=-1, keepdims=True) + x.dtype.type(1e-6))
    return found
