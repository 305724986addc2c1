"""Bytes and slots of a KV cache."""

from __future__ import annotations

from collections.abc import Sequence

from edgedec.core.cache_config import KvType
from edgedec.core.cache_kinds import TRAIL_SLOTS, Keys, States
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


def whole_keys(spec: ModelSpec) -> Keys:
    """The keys of all tokens; the graph has them as ``kv_cache``, also where no layer keeps any."""
    none = Keys("kv_cache", 0, spec.n_kv_heads, spec.head_dim)
    return next((keys for keys in spec.keys if not keys.window), none)


def ring_keys(spec: ModelSpec) -> Keys | None:
    """The keys that lie in rings; None without layers that see only a window."""
    return next((keys for keys in spec.keys if keys.window), None)


def ring_kept(spec: ModelSpec) -> int:
    """Slots of a ring that survive any pass: those that the next token sees, and those of a rewind."""
    rings = ring_keys(spec)
    return (rings.window if rings else 0) + RING_SLACK


def ring_slots(spec: ModelSpec, capacity: int, longest: int, kv: KvType = "fp16") -> int:
    """Slots of the rings of layers with a window, for passes over at most ``longest`` tokens.

    Rounded up to whole pages, and at most ``capacity``, with which no ring goes round. 0 without such layers.
    """
    if (rings := ring_keys(spec)) is None:
        return 0
    row = kv_row_bytes(rings.head_dim, kv)
    pages = -(-(ring_kept(spec) + longest) * row // PAGE)
    return min(pages * PAGE // row, capacity)


def kv_bytes(spec: ModelSpec, capacity: int, kv: KvType = "fp16", ring: int = 0) -> int:
    """Bytes of keys and values of ``capacity`` tokens; layers with a window have ``ring`` slots (0: all).

    An upper bound on resident bytes: pages of positions never reached stay untouched.
    """
    return sum(slot_bytes(keys, kv) * (ring if ring and keys.window else capacity) for keys in spec.keys)


def slot_bytes(keys: Keys, kv: KvType = "fp16") -> int:
    """Bytes of the keys and values of one token in all layers of a kind."""
    return 2 * keys.layers * keys.kv_heads * kv_row_bytes(keys.head_dim, kv)


def state_bytes(kinds: Sequence[States]) -> int:
    """Bytes that recurrent layers keep of one sequence: trails, states, and their checkpoint."""
    return sum(4 * kind.layers * ((TRAIL_SLOTS + kind.tail) * kind.trail + 2 * kind.state) for kind in kinds)


def most_undone(kinds: Sequence[States]) -> int:
    """Return the tokens that states can take back; 0: without states there is no bound."""
    return min((kind.undone for kind in kinds), default=0)
