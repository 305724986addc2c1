"""A drafting head in float32 NumPy, as ``weights`` defines it: the measure of training and of the export."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from edgedec.export.draft_head.weights import Floats, HeadWeights


def fused(weights: HeadWeights, taps: Floats) -> Floats:
    """The state f32[n, d] of committed tokens from their ``taps`` f32[n, 3 t]."""
    if weights.norm_taps is not None:
        parts = 3 if weights.norm_each else 1
        split = zip(np.split(taps, parts, axis=1), np.split(weights.norm_taps, parts), strict=True)
        taps = np.concatenate([norm(part, weight, weights.epsilon) for part, weight in split], axis=1)
    return taps @ weights.fc.T


def layer(
    weights: HeadWeights,
    states: Floats,
    embedded: Floats,
    positions: NDArray[np.int64],
    sees: NDArray[np.bool_],
) -> Floats:
    """The outputs f32[n, d] for n positions at once, which are the states of the next drafted ones.

    ``states`` and ``embedded`` are f32[n, d]; ``sees[i, j]`` is whether position i attends to j.
    """
    eps = weights.epsilon
    normed = norm(states, weights.norm_state, eps)
    x = np.concatenate([norm(embedded, weights.norm_embed, eps), normed], axis=1)
    residual = normed if weights.norm_before_residual else states
    h = residual + _attention(weights, x, positions, sees) @ weights.attn_output.T
    n = norm(h, weights.ffn_norm, eps)
    gate = n @ weights.ffn_gate.T
    out: Floats = h + (gate / (1.0 + np.exp(-gate)) * (n @ weights.ffn_up.T)) @ weights.ffn_down.T
    return norm(out, weights.output_norm, eps) if weights.norm_output else out


def logits(weights: HeadWeights, outputs: Floats, head: Floats) -> Floats:
    """The logits f32[n, k] of ``outputs`` f32[n, d].

    ``head`` f32[k, d] is that of the weights, or the target's rows.
    """
    if not weights.norm_output:
        outputs = norm(outputs, weights.output_norm, weights.epsilon)
    return outputs @ head.T


def norm(x: Floats, weight: Floats, epsilon: float) -> Floats:
    """RMSNorm of the rows of ``x``."""
    out: Floats = x * weight / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + epsilon)
    return out.astype(np.float32)


def _attention(
    weights: HeadWeights, x: Floats, positions: NDArray[np.int64], sees: NDArray[np.bool_]
) -> Floats:
    count, dim = len(x), weights.head_dim
    q = (x @ weights.attn_q.T).reshape(count, weights.heads, dim)
    k = (x @ weights.attn_k.T).reshape(count, weights.kv_heads, dim)
    if weights.q_norm is not None and weights.k_norm is not None:
        q, k = norm(q, weights.q_norm, weights.epsilon), norm(k, weights.k_norm, weights.epsilon)
    q, k = _turned(weights, q, positions), _turned(weights, k, positions)
    v = (x @ weights.attn_v.T).reshape(count, weights.kv_heads, dim)
    share = weights.heads // weights.kv_heads
    k, v = np.repeat(k, share, axis=1), np.repeat(v, share, axis=1)
    scores = np.einsum("ihd,jhd->hij", q, k) / np.sqrt(np.float32(dim))
    scores = np.where(sees[None], scores, -np.inf)
    scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
    scores /= scores.sum(axis=-1, keepdims=True)
    out: Floats = np.einsum("hij,jhd->ihd", scores, v).reshape(count, -1).astype(np.float32)
    return out


def _turned(weights: HeadWeights, x: Floats, positions: NDArray[np.int64]) -> Floats:
    half = weights.head_dim // 2
    frequencies = weights.rope_base ** (-np.arange(half, dtype=np.float64) / half)
    if weights.rope_factors is not None:
        frequencies = frequencies / weights.rope_factors
    angles = positions[:, None] * frequencies
    cos, sin = (f(angles).astype(np.float32)[:, None] for f in (np.cos, np.sin))
    first, second = x[..., :half], x[..., half:]
    return np.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)
