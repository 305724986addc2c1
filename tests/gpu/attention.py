"""The steps of TreeAttention on a GPU, for a model and a pass of the kernels' tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from edgedec.backends.gpu.device import GpuDevice
from tests.gpu.cases import KernelCase, empty
from tests.gpu.chain import ChainStep, follow
from tests.kernels.attention import Model, bits, depths, path, run
from tests.kernels.float_rows import F32, Array, same_bits

HEADS_AT_ONCE = 4


def paths(parents: Sequence[int]) -> Array:
    """Ancestors and the token itself of each token, behind the number of ancestors."""
    found = np.zeros((len(parents), 1 + len(parents)), np.uint32)
    for token in range(len(parents)):
        chain = path(parents, token)
        found[token, : 1 + len(chain)] = [len(chain) - 1, *chain]
    return found


def padded(model: Model, cache: Array) -> Array:
    """Rows of a cache as whole words: u32[2, kv heads, capacity, words]."""
    rows = bits(cache)
    odd = rows.shape[-1] % 2
    return np.ascontiguousarray(np.pad(rows, [(0, 0)] * 3 + [(0, odd)])).view(np.uint32)


def steps(model: Model, capacity: int, count: int) -> list[ChainStep]:
    """Prepare and attend."""
    heads, kv_heads, dim = model.heads, model.kv_heads, model.dim
    shape = {"HEADS": heads, "KV_HEADS": kv_heads, "DIM": dim, "CAPACITY": capacity, "LAYER": 0}
    norms: dict[str, Any] = {"Q_NORM": model.norms, "K_NORM": model.norms, "INTERLEAVED": model.interleaved}
    norms |= {"SCALE": 1 / dim**0.5, "EPSILON": 1e-6, "VALUE_NORM": model.value_norm, "SHARED": model.shared}
    softmax = {"WINDOW": model.window, "SOFTCAP": model.softcap, "SINKS": model.sinks}
    parts = -(-heads // kv_heads // HEADS_AT_ONCE)
    kind = "_int8" if model.int8 else ""
    return [
        ChainStep(
            f"tree_attention/prepare{kind}",
            shape | norms,
            ("qkv", "rotary", "q_norm", "k_norm", "queries", "cache"),
            ("queries", "cache"),
            (heads + (0 if model.shared else 2 * kv_heads), count, 1),
        ),
        ChainStep(
            f"tree_attention/attend{kind}",
            shape | softmax,
            ("queries", "paths", "cache", "sinks", "out"),
            ("out",),
            (kv_heads * parts, count, 1),
        ),
    ]


def check(
    device: GpuDevice,
    model: Model,
    parents: Sequence[int],
    length: int,
    capacity: int,
    tokens: F32 | None = None,
) -> list[KernelCase]:
    """One pass whose outputs and cache must have the bits of the scalar row; its steps as cases."""
    count = len(parents)
    tokens = model.tokens(count) if tokens is None else tokens
    if model.shared:  # queries alone: the keys and values of the tokens are there
        tokens = np.ascontiguousarray(tokens[:, : model.heads * model.dim])
    cache = model.cache(length + count if model.shared else length, capacity)
    (q_norm, k_norm), sinks = model.norm_weights(), model.sink_logits()
    rotary = model.rotary([length + depth for depth in depths(parents)])
    buffers: dict[str, Array] = {
        "qkv": tokens,
        "rotary": rotary,
        "q_norm": rotary if q_norm is None else q_norm,
        "k_norm": rotary if k_norm is None else k_norm,
        "queries": empty(count * model.heads * model.dim),
        "cache": padded(model, cache),
        "paths": paths(parents),
        "sinks": np.zeros(1, np.float32) if sinks is None else sinks,
        "out": empty(count * model.heads * model.dim),
    }
    found = follow(device, steps(model, capacity, count), buffers, {"tokens": count, "length": length})
    expected = run("scalar", model, tokens, parents, cache, length)
    assert same_bits(buffers["out"].reshape(expected.shape), expected)
    got, want = buffers["cache"], padded(model, cache)
    assert np.array_equal(got, want) if model.int8 else same_bits(got.view(np.float16), want.view(np.float16))
    return found
