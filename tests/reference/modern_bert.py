"""ModernBERT and NomicBERT in NumPy and float64: hidden states of one text."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]
Tensors = Mapping[str, NDArray[np.float32]]
_ERF = np.vectorize(math.erf)


def gelu(x: F64) -> F64:
    """Return x times the chance that a normal variable lies below it."""
    found: F64 = 0.5 * x * (1 + _ERF(x / math.sqrt(2)))
    return found


def norm(found: Mapping[str, Any], name: str, x: F64, epsilon: float) -> F64:
    """Return a layer norm of rows."""
    centred = x - x.mean(-1, keepdims=True)
    scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + epsilon)
    made: F64 = scaled * found[f"{name}.weight"] + found.get(f"{name}.bias", 0)
    return made


def modern_states(tensors: Tensors, config: Mapping[str, Any], ids: Sequence[int]) -> F64:
    """Return f64[tokens, hidden] of ModernBERT. Source: Warner et al. (2024)."""
    found = {name.removeprefix("model."): one.astype(np.float64) for name, one in tensors.items()}
    epsilon, window = config["norm_eps"], config["local_attention"] // 2
    x = norm(found, "embeddings.norm", found["embeddings.tok_embeddings.weight"][list(ids)], epsilon)
    away = np.abs(np.subtract.outer(np.arange(len(ids)), np.arange(len(ids))))
    for layer in range(config["num_hidden_layers"]):
        begin, local = f"layers.{layer}.", layer % config["global_attn_every_n_layers"] > 0
        base = config["local_rope_theta" if local else "global_rope_theta"]
        inner = norm(found, f"{begin}attn_norm", x, epsilon) if layer else x
        seen = away <= window if local else np.ones_like(away, bool)
        qkv = inner @ found[f"{begin}attn.Wqkv.weight"].T
        heads = _attention(qkv, seen, base, config["num_attention_heads"])
        x = x + heads @ found[f"{begin}attn.Wo.weight"].T
        both = norm(found, f"{begin}mlp_norm", x, epsilon) @ found[f"{begin}mlp.Wi.weight"].T
        active, factor = np.split(both, 2, axis=1)
        x = x + (gelu(active) * factor) @ found[f"{begin}mlp.Wo.weight"].T
    return norm(found, "final_norm", x, epsilon)


def nomic_states(tensors: Tensors, config: Mapping[str, Any], ids: Sequence[int]) -> F64:
    """Return f64[tokens, hidden] of NomicBERT. Source: Nussbaum et al. (2024)."""
    found = {name: one.astype(np.float64) for name, one in tensors.items()}
    epsilon = config["layer_norm_epsilon"]
    words = found["embeddings.word_embeddings.weight"][list(ids)]
    x = norm(found, "emb_ln", words + found["embeddings.token_type_embeddings.weight"][0], epsilon)
    seen = np.ones((len(ids), len(ids)), bool)
    for layer in range(config["n_layer"]):
        begin = f"encoder.layers.{layer}."
        qkv = x @ found[f"{begin}attn.Wqkv.weight"].T
        heads = _attention(qkv, seen, config["rotary_emb_base"], config["n_head"])
        x = norm(found, f"{begin}norm1", x + heads @ found[f"{begin}attn.out_proj.weight"].T, epsilon)
        gate = x @ found[f"{begin}mlp.fc12.weight"].T
        active = gate / (1 + np.exp(-gate)) * (x @ found[f"{begin}mlp.fc11.weight"].T)
        x = norm(found, f"{begin}norm2", x + active @ found[f"{begin}mlp.fc2.weight"].T, epsilon)
    return x


def _attention(qkv: F64, seen: NDArray[np.bool_], base: float, heads: int) -> F64:
    q, k, v = (one.reshape(len(qkv), heads, -1) for one in np.split(qkv, 3, axis=1))
    dim = q.shape[2]
    angles = np.arange(len(qkv))[:, None] * base ** (-np.arange(0, dim, 2) / dim)
    q, k = (_turned(one, angles[:, None]) for one in (q, k))
    scores = np.where(seen, np.einsum("qhd,khd->hqk", q, k) / math.sqrt(dim), -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    mixed: F64 = np.einsum("hqk,khd->qhd", weights, v).reshape(len(qkv), -1)
    return mixed


def _turned(x: F64, angles: F64) -> F64:
    a, b = np.split(x, 2, axis=2)
    turned = [a * np.cos(angles) - b * np.sin(angles), a * np.sin(angles) + b * np.cos(angles)]
    return np.concatenate(turned, axis=2)
