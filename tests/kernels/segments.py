"""Calls of SegmentAttention, attention of whole texts, and a float64 reference."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from tests.kernels.attention import F64, Model, turned
from tests.kernels.float_rows import F32, call

ALL = (1 << 31) - 1
"""The number of tokens to a side that means all of them."""


def positions(offsets: Sequence[int]) -> list[int]:
    """Positions of all tokens, which begin anew with each text."""
    return [place for first, end in pairwise(offsets) for place in range(end - first)]


def run(
    row: str, model: Model, tokens: F32, offsets: Sequence[int], before: int = ALL, after: int = ALL
) -> F32:
    """One pass over texts; ``before`` and ``after``: tokens that a token sees to each side."""
    out = np.full((len(tokens), model.heads * model.dim), np.float32(np.nan))
    status = call(
        "edgedec_segment_attention",
        row,
        ctypes.byref(model.config()),
        np.ascontiguousarray(tokens),
        model.rotary(positions(offsets)),
        np.asarray(offsets, np.int64),
        len(offsets),
        before,
        after,
        *model.norm_weights(),
        out,
    )
    assert status == 0
    return out


def reference(model: Model, tokens: F32, offsets: Sequence[int], before: int = ALL, after: int = ALL) -> F64:
    """Outputs f64[tokens, heads * dim]; keys and values are halves."""
    rotary, (q_norm, k_norm) = model.rotary(positions(offsets)), model.norm_weights()
    split = tokens.reshape(len(tokens), -1, model.dim)
    q = turned(model, split[:, : model.heads], rotary, q_norm) / model.dim**0.5
    k = turned(model, split[:, model.heads : model.heads + model.kv_heads], rotary, k_norm)
    v = split[:, model.heads + model.kv_heads :]
    k, v = (one.astype(np.float16).astype(np.float64) for one in (k, v))
    group, out = model.heads // model.kv_heads, np.empty_like(q)
    for first, end in pairwise(offsets):
        for token in range(first, end):
            seen = slice(max(first, token - before), min(end, token + after + 1))
            for head in range(model.heads):
                scores = k[seen, head // group] @ q[token, head]
                if model.softcap:
                    scores = model.softcap * np.tanh(scores / model.softcap)
                weights = np.exp(scores - scores.max())
                out[token, head] = weights / weights.sum() @ v[seen, head // group]
    return out.reshape(len(tokens), -1)
