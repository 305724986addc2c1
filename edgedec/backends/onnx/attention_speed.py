"""The time that attention takes here over a cache in fp16, and over one in int8."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import numpy as np

from edgedec.core.cache_config import KvType
from edgedec.core.cache_kinds import Keys
from edgedec.kernels import library
from edgedec.memory.sizes import kv_row_bytes

KEYS = 4096
"""Keys that are attended to: more than a core's caches hold."""
MOST_QUERIES = 48
"""Query vectors that read a key together, ``edgedec::tree_attention::kMostQueries``."""
_TRIES = 5


class AttentionConfig(ctypes.Structure):
    """Mirror of ``edgedec::tree_attention::Config``."""

    _fields_ = (
        ("heads", ctypes.c_size_t),
        ("kv_heads", ctypes.c_size_t),
        ("dim", ctypes.c_size_t),
        ("scale", ctypes.c_float),
        ("window", ctypes.c_size_t),
        ("interleaved", ctypes.c_bool),
        ("epsilon", ctypes.c_float),
        ("softcap", ctypes.c_float),
        ("ring", ctypes.c_bool),
        ("value_norm", ctypes.c_bool),
        ("shared", ctypes.c_bool),
    )


def attention_seconds(keys: Keys, heads: int, kv: KvType, tokens: int, clock: Callable[[], float]) -> float:
    """Return the least time of a layer's attention over ``KEYS`` random keys, on one thread.

    ``keys``: the sizes of a layer. ``heads``: its query heads. Raises BackendError without the library.
    """
    dim, row = keys.head_dim, kv_row_bytes(keys.head_dim, kv) // 2
    config = AttentionConfig(heads, keys.kv_heads, dim, dim**-0.5)
    rng = np.random.default_rng(0)
    cache = rng.integers(0, 256, (2, keys.kv_heads, KEYS + tokens, 2 * row), np.uint8).view(np.float16)
    cache[..., : dim if kv == "fp16" else 0] = 0.1
    cache[..., dim // 2 if kv == "int8" else dim :] = 0.01
    qkv = rng.standard_normal((tokens, (heads + 2 * keys.kv_heads) * dim), np.float32)
    rotary, parents = np.ones((tokens, dim), np.float32), np.arange(-1, tokens - 1, dtype=np.int64)
    out = np.empty((tokens, heads * dim), np.float32)
    sizes = ctypes.c_size_t(tokens), ctypes.c_size_t(KEYS)
    given = ctypes.byref(config), *(_address(one) for one in (qkv, rotary, parents)), *sizes
    where = _address(cache), ctypes.c_size_t(KEYS + tokens), ctypes.c_size_t(row)
    # Whole tasks, as passes have them that give each thread some.
    split = np.array([max(1, MOST_QUERIES // (heads // keys.kv_heads)), 0, 0], np.uint64)
    run, row_name = library.function("edgedec_tree_attention"), library.isa().encode()
    least = float("inf")
    for _ in range(_TRIES):
        start = clock()
        status = run(row_name, *given, *where, None, None, None, _address(out), _address(split), None)
        assert status == 0, "the sizes are those of a model that runs"
        least = min(least, clock() - start)
    return least


def _address(array: np.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)
