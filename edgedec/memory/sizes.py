"""Bytes and slots of a KV cache."""

from __future__ import annotations

from edgedec.core.cache_config import KvType
from edgedec.core.model_spec import ModelSpec

PAGE = 4096
"""Bytes that the operating system commits at a time."""
RING_SLACK = 256
"""Tokens that can be rewound where layers have a window: a reply of usual length that is regenerated.
A longer rewind empties the cache.
"""


def kv_row_bytes(head_dim: int, kv: KvType = "fp16") -> int:
    """Bytes of the key, or the value, of one token and head."""
    return head_dim + 2 * -(-head_dim // 32) if kv == "int8" else 2 * head_dim


def kv_row_name(head_dim: int) -> str:
    """Name, in a graph that takes every type, of the last dimension of its cache, in units of two bytes."""
    return f"row_{kv_row_bytes(head_dim) // 2}_or_{kv_row_bytes(head_dim, 'int8') // 2}"


def ring_kept(spec: ModelSpec) -> int:
    """Slots of a ring that survive any pass: those that the next token sees, and those of a rewind."""
    return spec.window + RING_SLACK


def ring_slots(spec: ModelSpec, capacity: int, longest: int, kv: KvType = "fp16") -> int:
    """Slots of the rings of layers with a window, for passes over at most ``longest`` tokens.

    Rounded up to whole pages, and at most ``capacity``, with which no ring goes round. 0 without such layers.
    """
    if not spec.n_window_layers:
        return 0
    row = kv_row_bytes(spec.head_dim, kv)
    pages = -(-(ring_kept(spec) + longest) * row // PAGE)
    return min(pages * PAGE // row, capacity)


def kv_bytes(spec: ModelSpec, capacity: int, kv: KvType = "fp16", ring: int = 0) -> int:
    """Bytes of keys and values of ``capacity`` tokens; layers with a window have ``ring`` slots (0: all).

    An upper bound on resident bytes: pages of positions never reached stay untouched.
    """
    slots = (spec.n_layers - spec.n_window_layers) * capacity + spec.n_window_layers * (ring or capacity)
    return 2 * spec.n_kv_heads * slots * kv_row_bytes(spec.head_dim, kv)
