"""Cases and a float64 reference for the TreeAttention tests."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from edgedec.backends.onnx.attention_speed import AttentionConfig
from tests.kernels import int8_attention
from tests.kernels.float_rows import F32, call

F64 = npt.NDArray[np.float64]
F16 = npt.NDArray[np.float16]
GROUPS = (int8_attention.KEY_GROUP, int8_attention.VALUE_GROUP)
"""Elements of keys, and of values, that share a scale in int8."""


@dataclass
class Model:
    """What stays the same from pass to pass."""

    heads: int = 6
    kv_heads: int = 2
    dim: int = 16
    window: int = 0
    interleaved: bool = False
    norms: bool = False
    softcap: float = 0.0
    seed: int = 0
    int8: bool = False
    """How the cache keeps keys and values."""
    ring: bool = False
    """Whether the cache keeps the newest slots alone."""
    value_norm: bool = False
    shared: bool = False
    """Whether another layer has written the keys and values."""
    sinks: bool = False
    """Whether each head has a logit more in its softmax."""

    def config(self) -> AttentionConfig:
        scale = 1 / self.dim**0.5
        return AttentionConfig(
            self.heads,
            self.kv_heads,
            self.dim,
            scale,
            self.window,
            self.interleaved,
            1e-6,
            self.softcap,
            self.ring,
            self.value_norm,
            self.shared,
        )

    def norm_weights(self) -> tuple[F32, F32] | tuple[None, None]:
        if not self.norms:
            return None, None
        q, k = np.random.default_rng(self.seed + 1).uniform(0.5, 2, (2, self.dim)).astype(np.float32)
        return q, k

    def sink_logits(self) -> F32 | None:
        """Logits below and above those of most keys, one for each head."""
        if not self.sinks:
            return None
        return np.random.default_rng(self.seed + 4).normal(0, 3, self.heads).astype(np.float32)

    def filling(self, length: int) -> F32:
        """Keys and values of the resident tokens, not rounded: [2, kv heads, length, dim]."""
        rng = np.random.default_rng(self.seed + 2)
        # Drawn slot by slot: a longer context begins with a shorter one.
        drawn = rng.standard_normal((length, 2, self.kv_heads, self.dim)).astype(np.float32)
        return drawn.transpose(1, 2, 0, 3)

    def stored(self, filling: F32) -> F16:
        """Keys and values [2, ..., dim] as rows of a cache."""
        if not self.int8:
            return filling.astype(np.float16)
        return np.stack([int8_attention.quantised(filling[part], GROUPS[part]) for part in range(2)])

    def cache(self, length: int, capacity: int) -> F16:
        """[2, kv heads, capacity, row]; slots from `length` on are NaN, so that reading them shows."""
        rows = self.stored(self.filling(length))
        cache = np.full((2, self.kv_heads, capacity, rows.shape[3]), np.float16(np.nan))
        cache[:, :, :length] = rows
        return cache

    def widened(self, rows: F16, part: int) -> F64:
        """What rows [..., row] of a cache mean: [..., dim]. part: 0 for keys, 1 for values."""
        if not self.int8:
            return rows.astype(np.float64)
        return int8_attention.widened(rows, self.dim, GROUPS[part])

    def tokens(self, count: int) -> F32:
        width = (self.heads + 2 * self.kv_heads) * self.dim
        return np.random.default_rng(self.seed + 3).standard_normal((count, width)).astype(np.float32)

    def rotary(self, positions: Sequence[int]) -> F32:
        inverse = 10_000.0 ** (-np.arange(0, self.dim, 2) / self.dim)
        angle = np.asarray(positions)[:, None] * inverse
        return np.concatenate([np.cos(angle), np.sin(angle)], axis=1).astype(np.float32)


def bits(rows: F16) -> npt.NDArray[np.uint16]:
    """For comparisons in which a NaN is not just any other: int8 rows are no fp16 numbers."""
    return np.ascontiguousarray(rows).view(np.uint16)


def depths(parents: Sequence[int]) -> list[int]:
    """Ancestors of each token within the pass."""
    found: list[int] = []
    for parent in parents:
        found.append(0 if parent < 0 else found[parent] + 1)
    return found


def path(parents: Sequence[int], token: int) -> list[int]:
    """Ancestors of a token and itself, in path order."""
    chain = [token]
    while parents[chain[-1]] >= 0:
        chain.append(parents[chain[-1]])
    return chain[::-1]


def run(
    row: str,
    model: Model,
    tokens: F32,
    parents: Sequence[int],
    cache: F16,
    length: int,
    split: tuple[int, int, int] | None = None,
    attention: F32 | None = None,
) -> F32:
    """One pass; `cache` is written in place. split: how it is shared out (tokens, keys, columns). `attention`
    [kv heads, capacity] is written too.
    """
    out = np.full((len(tokens), model.heads * model.dim), np.float32(np.nan))
    rotary = model.rotary([length + depth for depth in depths(parents)])
    q_norm, k_norm = model.norm_weights()
    status = call(
        "edgedec_tree_attention",
        row,
        ctypes.byref(model.config()),
        np.ascontiguousarray(tokens),
        rotary,
        np.asarray(parents, np.int64),
        len(tokens),
        length,
        cache,
        cache.shape[2],
        cache.shape[3],
        q_norm,
        k_norm,
        model.sink_logits(),
        out,
        None if split is None else np.array(split, np.uint64),
        attention,
    )
    assert status == 0, (row, status)
    return out


def turned(model: Model, x: F32, rotary: F32, weight: F32 | None) -> F64:
    """Heads [T, H, dim] through norm and rotation in float64."""
    wide = x.astype(np.float64)
    if weight is not None:
        wide = wide / np.sqrt((wide**2).mean(axis=-1, keepdims=True) + 1e-6) * weight
    half = model.dim // 2
    cosine, sine = (part[:, None].astype(np.float64) for part in (rotary[:, :half], rotary[:, half:]))
    first, second = (
        (slice(0, None, 2), slice(1, None, 2)) if model.interleaved else (slice(half), slice(half, None))
    )
    a, b = wide[..., first], wide[..., second]
    out = np.empty_like(wide)
    out[..., first], out[..., second] = a * cosine - b * sine, a * sine + b * cosine
    return out


def visible(model: Model, parents: Sequence[int], token: int, length: int) -> list[int]:
    """Slots that a token attends to, in path order."""
    slots = [*range(length), *(length + node for node in path(parents, token))]
    return slots[-model.window :] if model.window else slots


def exact(model: Model, tokens: F32, parents: Sequence[int], cache: F16, length: int) -> tuple[F32, F32]:
    """Outputs [T, heads * dim] and weights [T, heads, capacity] by an int8 `cache`, to the bit."""
    rotary = model.rotary([length + depth for depth in depths(parents)])
    weight, sinks = model.norm_weights()[0], model.sink_logits()
    out = np.empty((len(tokens), model.heads, model.dim), np.float32)
    given = np.zeros((len(tokens), model.heads, cache.shape[2]), np.float32)
    for token in range(len(tokens)):
        slots = visible(model, parents, token, length)
        first = length + depths(parents)[token] + 1 - len(slots)
        for head in range(model.heads):
            keys, values = cache[:, head // (model.heads // model.kv_heads), slots]
            q = tokens[token, head * model.dim : (head + 1) * model.dim]
            q = int8_attention.turned(q, rotary[token], weight, model.dim**-0.5, model.interleaved)
            sink = None if sinks is None else sinks[head]
            found = int8_attention.weighed(q, keys, model.softcap, sink)
            out[token, head] = int8_attention.attended(*found, values, first, model.dim)
            given[token, head, slots] = found[0] / found[1]
    return out.reshape(len(tokens), -1), given


def weights(model: Model, tokens: F32, parents: Sequence[int], cache: F16, length: int) -> F64:
    """What each token and head gives to each slot [T, heads, capacity], in float64, by keys in `cache`."""
    if model.int8:
        return exact(model, tokens, parents, cache, length)[1].astype(np.float64)
    rotary = model.rotary([length + depth for depth in depths(parents)])
    q = tokens[:, : model.heads * model.dim].reshape(len(tokens), model.heads, model.dim)
    q = turned(model, q, rotary, model.norm_weights()[0]) / model.dim**0.5
    found = np.zeros((len(tokens), model.heads, cache.shape[2]))
    for token in range(len(tokens)):
        slots = visible(model, parents, token, length)
        for head in range(model.heads):
            keys = model.widened(cache[0, head // (model.heads // model.kv_heads), slots], 0)
            scores = keys @ q[token, head]
            if model.softcap:
                scores = model.softcap * np.tanh(scores / model.softcap)
            if (sinks := model.sink_logits()) is not None:
                scores = np.append(scores, sinks[head])
            exponentials = np.exp(scores - scores.max())
            found[token, head, slots] = (exponentials / exponentials.sum())[: len(slots)]
    return found


def reference(
    model: Model, tokens: F32, parents: Sequence[int], cache: F16, length: int
) -> tuple[F64, F64, F64]:
    """Outputs [T, heads * dim] from the keys and values in `cache`, in float64; of int8, those of ``exact``.

    Also the keys and values [T, kv heads, dim] that the pass should have written there.
    """
    count, heads, kv_heads, dim = len(tokens), model.heads, model.kv_heads, model.dim
    rotary = model.rotary([length + depth for depth in depths(parents)])
    split = tokens.reshape(count, heads + 2 * kv_heads, dim)
    k = turned(model, split[:, heads : heads + kv_heads], rotary, model.norm_weights()[1])
    v = split[:, heads + kv_heads :].astype(np.float64)
    if model.value_norm:
        v = v / np.sqrt((v**2).mean(axis=-1, keepdims=True) + 1e-6)
    if model.int8:
        return exact(model, tokens, parents, cache, length)[0].astype(np.float64), k, v
    given = weights(model, tokens, parents, cache, length)
    out = np.empty((count, heads, dim))
    for token in range(count):
        slots = visible(model, parents, token, length)
        for head in range(heads):
            values = model.widened(cache[1, head // (heads // kv_heads), slots], 1)
            out[token, head] = given[token, head, slots] @ values
    return out.reshape(count, -1), k, v
