"""A reference in NumPy: six architectures in float32 from the dequantised weights of a GGUF file.

Source: the published definitions of the models (transformers' modeling files). Every pass dequantises a few
thousand rows of weights at a time, so memory stays small; a pass takes seconds to a minute.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from gguf import GGUFReader, quants
from numpy.typing import NDArray

Array = NDArray[np.float32]
_CHUNK_ELEMENTS = 8 << 20
_ARCHITECTURES = ("llama", "qwen2", "qwen3", "gemma2", "gemma3", "phi3")
_GLOBAL_PERIOD = {"gemma2": 2, "gemma3": 6}
"""Every n-th layer of these has no sliding window."""
_LAYERS_OF_27B = {"gemma2": 46, "gemma3": 62}
_GEMMA2_CAPS = {"attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0}
"""Soft caps of files that name none."""


class Peer:
    def open(self, model: str, threads: int, context: int, all_rows: bool = False) -> dict[str, Any]:
        """Map the GGUF file ``model``. NumPy chooses its threads itself."""
        del threads, context, all_rows
        self._weights = Weights(model)
        return {"version": f"numpy {np.__version__}", "isa": "float32"}

    def logits(self, tokens: list[int], path: str) -> dict[str, Any]:
        """Write the logits f32[T, V] of a pass over ``tokens`` to the .npy file ``path``."""
        started = time.perf_counter()
        weights = self._weights
        hidden = hidden_states(weights, np.array(tokens))
        head = "output.weight" if "output.weight" in weights.tensors else "token_embd.weight"
        shape = (len(tokens), weights.rows(head))
        rows = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=shape)
        done = 0
        for piece in weights.pieces(head):
            logits = hidden @ piece.T
            rows[:, done : done + len(piece)] = _capped(logits, weights.cap("final_logit_softcapping"))
            done += len(piece)
        rows.flush()
        return {"shape": list(shape), "seconds": time.perf_counter() - started}


class Weights:
    """Metadata, vectors and matrices of a GGUF file."""

    def __init__(self, path: str) -> None:
        self._reader = GGUFReader(path)
        self.tensors = {tensor.name: tensor for tensor in self._reader.tensors}
        field = self._reader.get_field("general.architecture")
        self.architecture = str(field.contents()) if field else ""
        if self.architecture not in _ARCHITECTURES:
            raise RuntimeError(f"the NumPy reference does not know {self.architecture!r}; try transformers")

    def key(self, name: str, default: Any = None) -> Any:
        field = self._reader.get_field(f"{self.architecture}.{name}")
        return default if field is None else field.contents()

    def cap(self, name: str) -> float:
        """Return a soft cap, 0 for none."""
        known = _GEMMA2_CAPS if self.architecture == "gemma2" else {}
        return float(self.key(name, known.get(name, 0.0)))

    @property
    def gemma(self) -> bool:
        return self.architecture.startswith("gemma")

    def rows(self, name: str) -> int:
        return int(self.tensors[name].shape[1])  # GGUF writes the fastest dimension first

    def vector(self, name: str) -> Array:
        return self._floats(name, slice(None))

    def lookup(self, name: str, rows: NDArray[np.int64]) -> Array:
        return self._floats(name, rows)

    def pieces(self, name: str) -> Iterator[Array]:
        """Yield the dequantised rows of a matrix, some at a time."""
        step = max(1, _CHUNK_ELEMENTS // int(self.tensors[name].shape[0]))
        for start in range(0, self.rows(name), step):
            yield self._floats(name, slice(start, start + step))

    def _floats(self, name: str, index: Any) -> Array:
        tensor = self.tensors[name]
        return quants.dequantize(np.asarray(tensor.data[index]), tensor.tensor_type).astype(np.float32)

    def linear(self, name: str, x: Array) -> Array:
        y = np.concatenate([x @ piece.T for piece in self.pieces(f"{name}.weight")], axis=1)
        bias = f"{name}.bias"
        return y + self.vector(bias) if bias in self.tensors else y

    def norm(self, name: str, x: Array) -> Array:
        epsilon = np.float32(self.key("attention.layer_norm_rms_epsilon"))
        scale = np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + epsilon)
        return np.asarray(x / scale * self.vector(f"{name}.weight"), dtype=np.float32)


def hidden_states(weights: Weights, tokens: NDArray[np.int64]) -> Array:
    """Return the final normalised states f32[T, D] of a causal pass over ``tokens`` from position 0."""
    gemma = weights.gemma
    x = weights.lookup("token_embd.weight", tokens)
    if gemma:
        x = x * np.float32(np.sqrt(x.shape[1]))
    for layer in range(weights.key("block_count")):
        block = f"blk.{layer}"
        y = _attention(weights, layer, weights.norm(f"{block}.attn_norm", x))
        x = x + (weights.norm(f"{block}.post_attention_norm", y) if gemma else y)
        y = weights.norm(f"{block}.ffn_norm", x)
        up = weights.linear(f"{block}.ffn_up", y)
        if weights.architecture == "phi3":
            gate, up = np.split(up, 2, axis=1)
        else:
            gate = weights.linear(f"{block}.ffn_gate", y)
        y = weights.linear(f"{block}.ffn_down", (_gelu_tanh(gate) if gemma else _silu(gate)) * up)
        x = x + (weights.norm(f"{block}.post_ffw_norm", y) if gemma else y)
    return weights.norm("output_norm", x)


def _attention(weights: Weights, layer: int, x: Array) -> Array:
    block, count = f"blk.{layer}", len(x)
    heads = weights.key("attention.head_count")
    kv_heads = weights.key("attention.head_count_kv")
    dim = weights.key("attention.key_length", weights.key("embedding_length") // heads)
    period = _GLOBAL_PERIOD.get(weights.architecture, 0)
    local = period > 0 and (layer + 1) % period != 0
    names = ["qkv"] if weights.architecture == "phi3" else ["q", "k", "v"]
    qkv = np.concatenate([weights.linear(f"{block}.attn_{name}", x) for name in names], axis=1)
    q, k, v = np.split(qkv.reshape(count, -1, dim), [heads, heads + kv_heads], axis=1)
    if f"{block}.attn_q_norm.weight" in weights.tensors:
        q, k = weights.norm(f"{block}.attn_q_norm", q), weights.norm(f"{block}.attn_k_norm", k)
    angles = _angles(weights, count, dim, local and weights.architecture == "gemma3")
    factor = np.float32(weights.key("rope.scaling.attn_factor", 1.0))  # of LongRoPE
    pairs_adjacent = weights.architecture == "llama"
    q, k = factor * _rotate(q, angles, pairs_adjacent), factor * _rotate(k, angles, pairs_adjacent)
    windowed = local or weights.architecture == "phi3"
    window = weights.key("attention.sliding_window", 0) if windowed else 0
    scale, cap = _attention_scale(weights, heads, dim), weights.cap("attn_logit_softcapping")
    mixed = np.empty_like(q)
    for head in range(heads):
        kv = head // (heads // kv_heads)
        mixed[:, head] = _softmax_attend(scale * q[:, head], k[:, kv], v[:, kv], window, cap)
    return weights.linear(f"{block}.attn_output", mixed.reshape(count, -1))


def _attention_scale(weights: Weights, heads: int, dim: int) -> np.float32:
    """Return 1 / sqrt(head size). Gemmas of 27B, known by their layers, use hidden size / heads instead."""
    if weights.key("block_count") == _LAYERS_OF_27B.get(weights.architecture):
        dim = weights.key("embedding_length") // heads
    return np.float32(dim**-0.5)


def _softmax_attend(q: Array, k: Array, v: Array, window: int, cap: float) -> Array:
    scores = _capped(q @ k.T, cap)
    distance = np.arange(len(q))[:, None] - np.arange(len(q))
    scores[(distance < 0) | ((distance >= window) if window else False)] = -np.inf
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True) @ v, dtype=np.float32)


def _angles(weights: Weights, count: int, dim: int, local: bool) -> NDArray[np.float64]:
    """Return rotation angles f64[T, d/2]."""
    base = 10000.0 if local else weights.key("rope.freq_base", 10000.0)
    frequencies = base ** (-np.arange(dim // 2) / (dim // 2))
    for name in ("rope_freqs.weight", "rope_factors_short.weight"):
        if name in weights.tensors:
            frequencies = frequencies / weights.vector(name)
    if not local:
        frequencies = frequencies / weights.key("rope.scaling.factor", 1.0)
    return np.asarray(np.arange(count)[:, None] * frequencies)


def _rotate(x: Array, angles: NDArray[np.float64], adjacent: bool) -> Array:
    """Rotate pairs of elements: (2i, 2i+1) in GGUF files of Llama, (i, i + d/2) in others."""
    half = x.shape[2] // 2
    one, two = (slice(0, None, 2), slice(1, None, 2)) if adjacent else (slice(0, half), slice(half, None))
    cos, sin = (f(angles).astype(np.float32)[:, None, :] for f in (np.cos, np.sin))
    out = np.empty_like(x)
    out[..., one] = x[..., one] * cos - x[..., two] * sin
    out[..., two] = x[..., two] * cos + x[..., one] * sin
    return out


def _capped(x: Array, cap: float) -> Array:
    return np.asarray(np.float32(cap) * np.tanh(x / np.float32(cap))) if cap else x


def _silu(x: Array) -> Array:
    return np.asarray(0.5 * x * (1 + np.tanh(0.5 * x)), dtype=np.float32)


def _gelu_tanh(x: Array) -> Array:
    inner = np.float32(np.sqrt(2 / np.pi)) * (x + np.float32(0.044715) * x**3)
    return np.asarray(np.float32(0.5) * x * (1 + np.tanh(inner)))
