"""The MTP layer of Qwen3.5 in float32 NumPy: a pass over a chain, from the states of its positions."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from edgedec.export.hyperparameters import Hyperparameters
from tests.fixtures.mtp_layers import LAYER

Floats = NDArray[np.float32]


class MtpReference:
    """``arrays``: tensors by their names in a GGUF file; a norm's weight has its 1 already."""

    def __init__(self, hyper: Hyperparameters, arrays: Mapping[str, Floats], layer: int = LAYER) -> None:
        self.hyper, self._arrays, self._layer = hyper, arrays, layer

    def weight(self, name: str) -> Floats:
        return self._arrays[f"blk.{self._layer}.{name}.weight"]

    def norm(self, x: Floats, weight: Floats) -> Floats:
        scale = np.sqrt(np.mean(x.astype(np.float64) ** 2, axis=-1, keepdims=True) + self.hyper.epsilon)
        return (x / scale * weight).astype(np.float32)

    def committed(self, taps: Floats) -> Floats:
        """The states of committed tokens: the target's last norm over its last layer's outputs."""
        return self.norm(taps, self._arrays["output_norm.weight"])

    def outputs(self, states: Floats, embedded: Floats) -> Floats:
        """The states behind each position of a chain: f32[n, d] from f32[n, d] and f32[n, d]."""
        joined = [
            self.norm(embedded, self.weight("nextn.enorm")),
            self.norm(states, self.weight("nextn.hnorm")),
        ]
        x = np.concatenate(joined, axis=1) @ self.weight("nextn.eh_proj").T
        x = x + self.attention(self.norm(x, self.weight("attn_norm")))
        n = self.norm(x, self.weight(self.hyper.architecture.mlp_norm))
        return self.norm(x + self.branch(n), self.weight("nextn.shared_head_norm"))

    def branch(self, n: Floats) -> Floats:
        """The MLP; or a shared expert times the sigmoid of its gate, and experts by their weights."""
        if self.hyper.experts is None:
            return self.mlp(n, *(self.weight(f"ffn_{name}") for name in ("gate", "up", "down")))
        gate = 1 / (1 + np.exp(-n @ self.weight("ffn_gate_inp_shexp")))
        shared = (self.weight(f"ffn_{name}_shexp") for name in ("gate", "up", "down"))
        out = self.mlp(n, *shared) * gate[:, None]
        scores = n @ self.weight("ffn_gate_inp").T
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        stacks = [self.weight(f"ffn_{name}_exps") for name in ("gate", "up", "down")]
        for token, row in enumerate(weights):
            best = sorted(range(len(row)), key=lambda expert: -row[expert])[: self.hyper.experts.chosen]
            for expert in best:
                parts = [stack[expert] for stack in stacks]
                out[token] += row[expert] / row[best].sum() * self.mlp(n[token], *parts)
        return out

    @staticmethod
    def mlp(n: Floats, gate: Floats, up: Floats, down: Floats) -> Floats:
        g = n @ gate.T
        out: Floats = (g / (1 + np.exp(-g)) * (n @ up.T)) @ down.T
        return out

    def attention(self, x: Floats) -> Floats:
        hyper, count = self.hyper, len(x)
        q = (x @ self.weight("attn_q").T).reshape(count, hyper.heads, -1)
        q, gate = q[..., : hyper.head_dim], q[..., hyper.head_dim :]
        k, v = ((x @ self.weight(f"attn_{n}").T).reshape(count, hyper.kv_heads, -1) for n in "kv")
        q = self.turned(self.norm(q, self.weight("attn_q_norm")))
        k = self.turned(self.norm(k, self.weight("attn_k_norm")))
        share = hyper.heads // hyper.kv_heads
        k, v = np.repeat(k, share, axis=1), np.repeat(v, share, axis=1)
        scores = np.einsum("ihd,jhd->hij", q, k) * hyper.attention_scale
        scores = np.where(np.tril(np.ones((count, count), bool)), scores, -np.inf)
        scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
        scores /= scores.sum(axis=-1, keepdims=True)
        heads = np.einsum("hij,jhd->ihd", scores, v)
        if gate.size:
            heads = heads / (1 + np.exp(-gate))
        out: Floats = heads.reshape(count, -1).astype(np.float32) @ self.weight("attn_output").T
        return out

    def turned(self, x: Floats) -> Floats:
        """Rotate the first ``rotary_dim`` elements of each head, in pairs (i, i + rotary_dim / 2)."""
        dim, half = self.hyper.rotary_dim, self.hyper.rotary_dim // 2
        angles = np.arange(len(x))[:, None] * self.hyper.rope_base ** (-np.arange(half) / half)
        cos, sin = np.cos(angles)[:, None], np.sin(angles)[:, None]
        first, second, rest = x[..., :half], x[..., half:dim], x[..., dim:]
        turned = [first * cos - second * sin, second * cos + first * sin, rest]
        return np.concatenate(turned, axis=-1).astype(np.float32)
