"""Cases and a float64 reference for the GatedDelta tests."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tests.kernels.float_rows import F32, call
from tests.kernels.recurrent import Memory

F64 = npt.NDArray[np.float64]


class Config(ctypes.Structure):
    """Mirror of edgedec::gated_delta::Config."""

    _fields_ = (
        ("k_heads", ctypes.c_size_t),
        ("v_heads", ctypes.c_size_t),
        ("k_dim", ctypes.c_size_t),
        ("v_dim", ctypes.c_size_t),
        ("taps", ctypes.c_size_t),
        ("epsilon", ctypes.c_float),
        ("tiled", ctypes.c_bool),
    )


@dataclass(frozen=True)
class Layer:
    """Sizes and weights, which stay the same from pass to pass."""

    k_heads: int = 2
    v_heads: int = 4
    k_dim: int = 16
    v_dim: int = 48
    taps: int = 4
    tiled: bool = False
    seed: int = 0

    @property
    def channels(self) -> int:
        return 2 * self.k_heads * self.k_dim + self.v_heads * self.v_dim

    @property
    def trail(self) -> int:
        return self.channels + 2 * self.v_heads

    @property
    def width(self) -> int:
        """Numbers of a token: q, k, v, z, b, a."""
        return self.trail + self.v_heads * self.v_dim

    @property
    def state(self) -> int:
        return self.v_heads * self.k_dim * self.v_dim

    @property
    def outputs(self) -> int:
        return self.v_heads * self.v_dim

    def config(self) -> Config:
        return Config(self.k_heads, self.v_heads, self.k_dim, self.v_dim, self.taps, 1e-6, self.tiled)

    def weights(self) -> tuple[F32, F32, F32, F32]:
        """Weights of the convolution, decay, dt_bias and weights of the norm."""
        rng = np.random.default_rng(self.seed + 1)
        conv = rng.standard_normal((self.channels, self.taps)).astype(np.float32)
        decay = -np.exp(rng.uniform(-4, 2, self.v_heads)).astype(np.float32)
        bias = rng.uniform(-3, 1, self.v_heads).astype(np.float32)
        return conv, decay, bias, rng.uniform(0.5, 2, self.v_dim).astype(np.float32)

    def tokens(self, count: int) -> F32:
        """Drawn token by token: a longer text begins with a shorter one."""
        return np.random.default_rng(self.seed + 2).standard_normal((count, self.width)).astype(np.float32)

    def rows(self, tokens: F32) -> F32:
        return np.concatenate([tokens[:, : self.channels], tokens[:, -2 * self.v_heads :]], axis=1)

    def call(self, row: str, memory: Memory, tokens: F32, parents: Sequence[int], out: F32) -> int:
        return call(
            "edgedec_gated_delta",
            row,
            ctypes.byref(self.config()),
            np.ascontiguousarray(tokens),
            np.asarray(parents, np.int64),
            len(tokens),
            memory.length,
            memory.applied,
            memory.trail,
            memory.state,
            *self.weights(),
            out,
        )


def _silu(x: F64) -> F64:
    return np.asarray(x / (1 + np.exp(-x)))


def reference(layer: Layer, tokens: F32) -> tuple[F64, F64]:
    """Outputs [T, values] of a text, and the state [heads, dk, dv] after it, token by token in float64."""
    conv, decay, bias, norm = (part.astype(np.float64) for part in layer.weights())
    x = tokens.astype(np.float64)
    keys, values = layer.k_heads * layer.k_dim, layer.v_heads * layer.v_dim
    padded = np.concatenate([np.zeros((layer.taps - 1, layer.channels)), x[:, : layer.channels]])
    z, b, a = np.split(x[:, layer.channels :], [values, values + layer.v_heads], axis=1)
    state, outs = np.zeros((layer.v_heads, layer.k_dim, layer.v_dim)), []
    for token in range(len(x)):
        mixed = _silu((padded[token : token + layer.taps].T * conv).sum(axis=1))
        q, k = mixed[: 2 * keys].reshape(2, layer.k_heads, layer.k_dim)
        repeats = layer.v_heads // layer.k_heads
        order = np.arange(layer.v_heads)
        order = order % layer.k_heads if layer.tiled else order // repeats
        q, k = (part / np.sqrt((part**2).sum(axis=1, keepdims=True) + 1e-6) for part in (q, k))
        q, k = (q / layer.k_dim**0.5)[order], k[order]
        v = mixed[2 * keys :].reshape(layer.v_heads, layer.v_dim)
        beta = 1 / (1 + np.exp(-b[token]))
        state = state * np.exp(decay * np.logaddexp(0, a[token] + bias))[:, None, None]
        delta = beta[:, None] * (v - np.einsum("hij,hi->hj", state, k))
        state = state + k[:, :, None] * delta[:, None]
        out = np.einsum("hij,hi->hj", state, q)
        out = out / np.sqrt((out**2).mean(axis=1, keepdims=True) + 1e-6) * norm
        outs.append(out.ravel() * _silu(z[token]))
    return np.array(outs), state
