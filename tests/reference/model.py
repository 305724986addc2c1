"""An oracle: the forward pass of llama, smollm3, mistral3, qwen2, qwen3, qwen3vl, qwen35, lfm2, gemma2,
gemma3, phi3 and gpt-oss in plain NumPy, from the dequantised weights of a GGUF file.

Nothing is shared with the exporter but the reader of the file: names, norms, rotary pairs and windows are
written out again here from the models' published definitions (transformers' modeling files), in float32 or
float64.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from gguf import quants
from numpy.typing import NDArray

from edgedec.export.gguf_source import GgufSource, open_gguf

Array = NDArray[Any]


def reference_logits(
    gguf_path: Path, tokens: Sequence[int], *, dtype: type[np.floating[Any]] = np.float32
) -> Array:
    """Logits [T, V] of a causal pass over ``tokens`` (positions 0..T-1), all in ``dtype``."""
    from tests.reference.experts import Mixture, SparseGemma4
    from tests.reference.gemma4 import Gemma4

    with open_gguf(Path(gguf_path)) as source:
        name = source.metadata["general.architecture"]
        sparse, gemma4 = f"{name}.expert_count" in source.metadata, name == "gemma4"
        kind = (SparseGemma4 if gemma4 else Mixture) if sparse else Gemma4 if gemma4 else Model
        return kind(source, dtype).logits(np.asarray(tokens, dtype=np.int64))


class Model:
    def __init__(self, source: GgufSource, dtype: type[np.floating[Any]]) -> None:
        self.source, self.dtype = source, dtype
        self.name: str = source.metadata["general.architecture"]
        self.gemma = self.name.startswith("gemma")
        self.heads: int = self.key("attention.head_count")
        stated = self.key("attention.head_count_kv")
        self.kv_heads: int = max(stated) if isinstance(stated, list) else stated
        self.head_dim: int = self.key("attention.key_length", self.key("embedding_length") // self.heads)
        self.epsilon: float = self.key("attention.layer_norm_rms_epsilon")

    def key(self, key: str, default: Any = None) -> Any:
        return self.source.metadata.get(f"{self.name}.{key}", default)

    def logits(self, tokens: NDArray[np.int64]) -> Array:
        x = self.embed(tokens)
        for layer in range(self.key("block_count") - self.key("nextn_predict_layers", 0)):
            x = self.layer(layer, x)
        x = self.norm("token_embd_norm.weight" if self.kind == "lfm2" else "output_norm.weight", x)
        head = "output.weight" if "output.weight" in self.source.tensors else "token_embd.weight"
        pieces = [x @ piece.T for piece in self.row_chunks(head)]
        return self.capped(np.concatenate(pieces, axis=1), "final_logit_softcapping")

    def capped(self, x: Array, key: str) -> Array:
        cap = self.key(key)
        return cap * np.tanh(x / cap) if cap else x

    def embed(self, tokens: NDArray[np.int64]) -> Array:
        x = self.table_rows("token_embd.weight", tokens)
        return x * self.dtype(np.sqrt(x.shape[1])) if self.gemma else x

    def table_rows(self, name: str, tokens: NDArray[np.int64]) -> Array:
        table = self.source.tensors[name]
        raw = np.concatenate([self.source.rows(table, token, token + 1) for token in tokens.tolist()])
        x: Array = quants.dequantize(raw, table.type).astype(self.dtype) * self.dtype(table.scale(0))
        return x

    def layer(self, layer: int, x: Array) -> Array:
        block = f"blk.{layer}."
        gemma = self.gemma
        attention = self.mixer(layer, self.norm(block + "attn_norm.weight", x))
        attention = self.norm(block + "post_attention_norm.weight", attention) if gemma else attention
        x = x + self.residual(attention)
        mlp = self.branch(block, x)
        return x + self.residual(self.norm(block + "post_ffw_norm.weight", mlp) if gemma else mlp)

    def branch(self, block: str, x: Array) -> Array:
        """Compute the part of a layer in which tokens do not see each other."""
        second = "post_attention_norm" if self.kind in ("qwen35", "gpt-oss") else "ffn_norm"
        return self.mlp(block, self.norm(f"{block}{second}.weight", x))

    @property
    def kind(self) -> str:
        """The architecture, but for what stands in the place of an MLP."""
        return self.name

    def residual(self, branch: Array) -> Array:
        return branch

    def mlp(self, block: str, y: Array) -> Array:
        up = self.linear(block + "ffn_up", y)
        if self.name == "phi3":
            gate, up = np.split(up, 2, axis=1)
        else:
            gate = self.linear(block + "ffn_gate", y)
        active = gelu_tanh(gate) if self.gemma else gate / (1 + np.exp(-gate))
        return self.linear(block + "ffn_down", active * up)

    def mixer(self, layer: int, x: Array) -> Array:
        if f"blk.{layer}.ssm_a" in self.source.tensors:
            return self.delta(f"blk.{layer}.", x)
        if f"blk.{layer}.shortconv.conv.weight" in self.source.tensors:
            return self.short_conv(f"blk.{layer}.shortconv.", x)
        return self.attention(layer, x)

    def delta(self, block: str, x: Array) -> Array:
        """Gated DeltaNet (transformers' ``torch_recurrent_gated_delta_rule``), with GGUF's order of heads."""
        count, hk, hv = len(x), self.key("ssm.group_count"), self.key("ssm.time_step_rank")
        dk, dv = self.key("ssm.state_size"), self.key("ssm.inner_size") // hv
        mixed = silu(self.convolved(block + "ssm_conv1d", self.linear(block + "attn_qkv", x)))
        q, k, v = np.split(mixed, [hk * dk, 2 * hk * dk], axis=1)
        q, k = (part.reshape(count, hk, dk) for part in (q, k))
        q, k = (part / np.sqrt((part**2).sum(2, keepdims=True) + 1e-6) for part in (q, k))
        v = v.reshape(count, hv, dv)
        beta = 1 / (1 + np.exp(-self.linear(block + "ssm_beta", x)))
        a = self.linear(block + "ssm_alpha", x) + self.floats(block + "ssm_dt.bias")
        decay = np.exp(self.floats(block + "ssm_a") * np.log1p(np.exp(a)))
        out = np.zeros((count, hv, dv), self.dtype)
        for head in range(hv):
            state = np.zeros((dk, dv), self.dtype)
            for t in range(count):
                key = k[t, head % hk]
                state *= decay[t, head]
                state += np.outer(key, beta[t, head] * (v[t, head] - key @ state))
                out[t, head] = q[t, head % hk] / self.dtype(np.sqrt(dk)) @ state
        z = self.linear(block + "attn_gate", x).reshape(count, hv, dv)
        gated = self.norm(block + "ssm_norm.weight", out) * silu(z)
        return self.linear(block + "ssm_out", gated.reshape(count, -1))

    def short_conv(self, block: str, x: Array) -> Array:
        b, c, y = np.split(self.linear(block + "in_proj", x), 3, axis=1)
        return self.linear(block + "out_proj", c * self.convolved(block + "conv", b * y))

    def convolved(self, name: str, x: Array) -> Array:
        """Sum of each channel over its newest tokens, the token itself last."""
        tensor = self.source.tensors[name + ".weight"]
        weight = self.source.vector(tensor).reshape(tensor.shape).astype(self.dtype)
        out = np.zeros_like(x)
        for back in range(weight.shape[1]):
            out[back:] += x[: len(x) - back] * weight[:, -1 - back]
        return out

    def attention(self, layer: int, x: Array) -> Array:
        block, count = f"blk.{layer}.", len(x)
        names = ["qkv"] if self.name == "phi3" else ["q", "k", "v"]
        together = np.concatenate([self.linear(f"{block}attn_{name}", x) for name in names], axis=1)
        gate = None
        if self.kind == "qwen35":  # q and gate of each head in turn
            wide = together[:, : 2 * self.heads * self.head_dim].reshape(count, self.heads, 2, -1)
            gate = wide[:, :, 1].reshape(count, -1)
            rest = together[:, 2 * self.heads * self.head_dim :]
            together = np.concatenate([wide[:, :, 0].reshape(count, -1), rest], axis=1)
        heads = together.reshape(count, -1, self.head_dim)
        q, k, v = np.split(heads, [self.heads, self.heads + self.kv_heads], axis=1)
        windows = self.gemma or self.name == "gpt-oss"
        local = windows and (layer + 1) % (6 if self.name == "gemma3" else 2) != 0
        if block + "attn_q_norm.weight" in self.source.tensors:
            q, k = self.norm(block + "attn_q_norm.weight", q), self.norm(block + "attn_k_norm.weight", k)
        if self.key("rope.scaling.finetuned", True) and (self.name != "smollm3" or (layer + 1) % 4):
            q, k = self.rotate(q, local), self.rotate(k, local)
        k, v = (np.repeat(t, self.heads // self.kv_heads, axis=1) for t in (k, v))
        scores = np.einsum("ihd,jhd->hij", q, k) * self.dtype(
            self.key("attention.scale", self.head_dim**-0.5)
        )
        scores = self.capped(scores, "attn_logit_softcapping")
        distance = np.arange(count)[:, None] - np.arange(count)[None, :]
        window = self.key("attention.sliding_window", 0) if local or self.name == "phi3" else 0
        hidden = (distance < 0) | ((distance >= window) if window else False)
        scores = np.where(hidden, -np.inf, scores)
        if block + "attn_sinks.weight" in self.source.tensors:
            sinks = self.floats(block + "attn_sinks.weight")[:, None, None]
            scores = np.concatenate([scores, np.broadcast_to(sinks, (self.heads, count, 1))], axis=-1)
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights = (weights / weights.sum(axis=-1, keepdims=True))[..., :count]
        mixed = np.einsum("hij,jhd->ihd", weights, v).reshape(count, -1)
        mixed = mixed if gate is None else mixed / (1 + np.exp(-gate))
        return self.linear(block + "attn_output", mixed.astype(self.dtype))

    def rotate(self, x: Array, local: bool) -> Array:
        """Llama GGUFs keep pairs (2i, 2i+1); the others (i, i + d/2), of the elements that are rotated."""
        x, kept = np.split(x, [self.key("rope.dimension_count", self.head_dim)], axis=2)
        half = x.shape[2] // 2
        base = 10000.0 if local and self.name == "gemma3" else self.key("rope.freq_base", 10000.0)
        frequencies = base ** (-np.arange(half, dtype=np.float64) / half)
        for name in ("rope_freqs.weight", "rope_factors_short.weight"):
            if name in self.source.tensors:
                frequencies /= self.source.vector(self.source.tensors[name])
        if self.key("rope.scaling.type") == "yarn":
            frequencies = self.between(frequencies, base)
        elif not local:
            frequencies /= self.key("rope.scaling.factor", 1.0)
        angles = np.arange(len(x))[:, None, None] * frequencies
        factor = self.key("rope.scaling.attn_factor", 1.0)
        if self.name == "gpt-oss":
            factor = 0.1 * np.log(self.key("rope.scaling.factor")) + 1
        cos, sin = ((factor * f(angles)).astype(self.dtype) for f in (np.cos, np.sin))
        axis = 3 if self.name in ("llama", "smollm3", "mistral3", "granitemoe") else 2
        pair = x.reshape(*x.shape[:2], *((half, 2) if axis == 3 else (2, half)))
        first, second = np.take(pair, 0, axis=axis), np.take(pair, 1, axis=axis)
        turned = np.stack([first * cos - second * sin, second * cos + first * sin], axis=axis)
        return np.concatenate([turned.reshape(x.shape), kept], axis=2)

    def between(self, fast: NDArray[np.float64], base: float) -> NDArray[np.float64]:
        """YaRN's frequencies: those of pairs that turn seldom in the first context are divided."""
        count, context = len(fast), self.key("rope.scaling.original_context_length")
        turns = (self.key("rope.scaling.yarn_beta_fast", 32), self.key("rope.scaling.yarn_beta_slow", 1))
        first, last = (count * np.log(context / (2 * np.pi * n)) / np.log(base) for n in turns)
        if self.name != "gpt-oss":  # truncate in its configuration is false
            first, last = np.floor(first), np.ceil(last)
        first, last = max(first, 0), min(last, 2 * count - 1)
        slow = np.clip((np.arange(count) - first) / max(last - first, 1e-3), 0, 1)
        return np.asarray(slow * fast / self.key("rope.scaling.factor") + (1 - slow) * fast)

    def norm(self, name: str, x: Array) -> Array:
        mean = np.mean(np.square(x), axis=-1, keepdims=True, dtype=self.dtype)
        weight = self.source.vector(self.source.tensors[name]).astype(self.dtype)
        y: Array = x / np.sqrt(mean + self.dtype(self.epsilon)) * weight
        return y

    def floats(self, name: str) -> Array:
        return self.source.vector(self.source.tensors[name]).astype(self.dtype)

    def linear(self, name: str, x: Array) -> Array:
        y = np.concatenate([x @ piece.T for piece in self.row_chunks(name + ".weight")], axis=-1)
        if name + ".bias" in self.source.tensors:
            y = y + self.source.vector(self.source.tensors[name + ".bias"]).astype(self.dtype)
        return y

    def row_chunks(self, name: str) -> Iterator[Array]:
        """The dequantised rows of a matrix, a few thousand at a time."""
        tensor = self.source.tensors[name]
        for start in range(0, tensor.shape[0], 4096):
            raw = self.source.rows(tensor, start, min(start + 4096, tensor.shape[0]))
            yield quants.dequantize(raw, tensor.type).astype(self.dtype) * self.dtype(tensor.scale(0))


def gelu_tanh(x: Array) -> Array:
    inner = np.sqrt(2 / np.pi).astype(x.dtype) * (x + x.dtype.type(0.044715) * x**3)
    y: Array = x.dtype.type(0.5) * x * (1 + np.tanh(inner))
    return y


def silu(x: Array) -> Array:
    found: Array = x / (1 + np.exp(-x))
    return found
