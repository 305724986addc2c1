"""Bytes and slots of a KV cache."""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import c_int64
from functools import cache

from edgedec.core.cache_config import KvType
from edgedec.core.cache_kinds import Keys, States
from edgedec.core.model_spec import ModelSpec
from edgedec.core_lib.memory import MEMORY, int8, packed, spec_numbers, states_numbers


@cache
def ring_sizes() -> tuple[int, int]:
    """Return how long rings are beside their window and a pass.

    Tokens that can be rewound, beyond which the cache is emptied; bytes of which a ring fills whole ones.
    """
    found = (c_int64 * 2)()
    MEMORY.ring_sizes(found)
    return found[0], found[1]


def numbers_of(spec: ModelSpec) -> tuple[int, ...]:
    """Return a model's sizes as the core takes them."""
    return spec_numbers(spec, ring_sizes())


def kv_row_bytes(head_dim: int, kv: KvType = "fp16") -> int:
    """Bytes of the key, or the value, of one token and head."""
    return int(MEMORY.row_bytes(head_dim, int8(kv)))


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
    return (rings.window if rings else 0) + ring_sizes()[0]


def ring_slots(spec: ModelSpec, capacity: int, longest: int, kv: KvType = "fp16") -> int:
    """Slots of the rings of layers with a window, for passes over at most ``longest`` tokens.

    Rounded up to whole pages, and at most ``capacity``, with which no ring goes round. 0 without such layers.
    """
    return int(MEMORY.ring_slots(packed(numbers_of(spec)), capacity, longest, int8(kv)))


def kv_bytes(spec: ModelSpec, capacity: int, kv: KvType = "fp16", ring: int = 0) -> int:
    """Bytes of keys and values of ``capacity`` tokens; layers with a window have ``ring`` slots (0: all).

    An upper bound on resident bytes: pages of positions never reached stay untouched.
    """
    return int(MEMORY.kv_bytes(packed(numbers_of(spec)), capacity, int8(kv), ring))


def slot_bytes(keys: Keys, kv: KvType = "fp16") -> int:
    """Bytes of the keys and values of one token in all layers of a kind."""
    return 2 * keys.layers * keys.kv_heads * kv_row_bytes(keys.head_dim, kv)


def state_bytes(kinds: Sequence[States]) -> int:
    """Bytes that recurrent layers keep of one sequence: trails, states, and their checkpoint."""
    return int(MEMORY.state_bytes(packed(states_numbers(kinds))))


def most_undone(kinds: Sequence[States]) -> int:
    """Return the tokens that states can take back; 0: without states there is no bound."""
    return min((kind.undone for kind in kinds), default=0)
