"""The oracle for Gemma 4, written out from transformers' modeling file."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.reference.model import Array, Model, gelu_tanh


class Gemma4(Model):
    """Keys and values of a pass are kept by layer, for the layers that have none of their own."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.local: list[bool] = self.key("attention.sliding_window_pattern")
        self.own = len(self.local) - self.key("attention.shared_kv_layers")
        self.kept: dict[int, tuple[Array, Array]] = {}

    def logits(self, tokens: NDArray[np.int64]) -> Array:
        has_table = "per_layer_token_embd.weight" in self.source.tensors
        self.per_layer = self.per_layer_inputs(tokens) if has_table else None
        return super().logits(tokens)

    def per_layer_inputs(self, tokens: NDArray[np.int64]) -> Array:
        """[T, layers, d]: the rows of the table, and a projection of the embedding."""
        size = self.key("embedding_length_per_layer_input")
        parts = len(tokens), len(self.local), size
        rows = self.table_rows("per_layer_token_embd.weight", tokens).reshape(parts)
        x = self.embed(tokens)
        projected = self.linear("per_layer_model_proj", x) / self.dtype(np.sqrt(x.shape[1]))
        normed = self.norm("per_layer_proj_norm.weight", projected.reshape(parts))
        return (normed + rows * self.dtype(np.sqrt(size))) / self.dtype(np.sqrt(2))

    def layer(self, layer: int, x: Array) -> Array:
        block = f"blk.{layer}."
        x = super().layer(layer, x)
        if self.per_layer is not None:
            gated = gelu_tanh(self.linear(block + "inp_gate", x)) * self.per_layer[:, layer]
            x = x + self.norm(block + "post_norm.weight", self.linear(block + "proj", gated))
        scale = self.source.vector(self.source.tensors[block + "layer_output_scale.weight"])
        return x * scale.astype(self.dtype)

    def attention(self, layer: int, x: Array) -> Array:
        block, count, local = f"blk.{layer}.", len(x), self.local[layer]
        dim = self.key("attention.key_length_swa" if local else "attention.key_length")
        q = self.norm(block + "attn_q_norm.weight", self.linear(block + "attn_q", x).reshape(count, -1, dim))
        if layer < self.own:
            k, v = (self.linear(block + name, x).reshape(count, -1, dim) for name in ("attn_k", "attn_v"))
            k = self.turned(self.norm(block + "attn_k_norm.weight", k), local)
            mean = np.mean(np.square(v), axis=-1, keepdims=True)
            self.kept[layer] = k, v / np.sqrt(mean + self.dtype(self.epsilon))
        source = max(other for other in self.kept if other <= layer and self.local[other] == local)
        k, v = (np.repeat(t, self.heads // t.shape[1], axis=1) for t in self.kept[source])
        scores = np.einsum("ihd,jhd->hij", self.turned(q, local), k)
        distance = np.arange(count)[:, None] - np.arange(count)[None, :]
        window = self.key("attention.sliding_window") if local else count
        scores = np.where((distance < 0) | (distance >= window), -np.inf, scores)
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
        mixed = np.einsum("hij,jhd->ihd", weights, v).reshape(count, -1)
        return self.linear(block + "attn_output", mixed.astype(self.dtype))

    def turned(self, x: Array, local: bool) -> Array:
        """Pairs (i, i + d/2): all of a head with a window, else a quarter of them."""
        half = x.shape[2] // 2
        base = self.key("rope.freq_base_swa" if local else "rope.freq_base")
        frequencies = base ** (-np.arange(half, dtype=np.float64) / half)
        if not local:
            frequencies[half // 4 :] = 0
        angles = np.arange(len(x))[:, None, None] * frequencies
        cos, sin = (f(angles).astype(self.dtype) for f in (np.cos, np.sin))
        first, second = x[..., :half], x[..., half:]
        return np.concatenate([first * cos - second * sin, second * cos + first * sin], axis=2)
