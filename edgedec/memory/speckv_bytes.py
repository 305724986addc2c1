"""Bytes that choosing tokens by attention takes, for ``eviction.speckv`` and for the memory plan."""

from __future__ import annotations

from edgedec.core.model_spec import ModelSpec
from edgedec.memory.sizes import kv_row_bytes, whole_keys

WINDOW = 32
"""Newest tokens that are queries, and stay; at most a quarter of the cache."""
LOOKAHEAD = 16
"""Tokens of the lookahead, and slots that are kept free for them; at most a quarter of the cache."""


def speckv_bytes(spec: ModelSpec, slots: int, longest: int) -> int:
    """Bytes that a choice takes for a moment in a cache of ``slots``, with passes over at most ``longest``:
    the attention to every slot, of two passes where one is too short for all queries, and the choice.
    """
    passes = 1 if longest >= WINDOW + LOOKAHEAD else 2
    keys = whole_keys(spec)
    return 4 * passes * keys.layers * keys.kv_heads * slots + choice_bytes(spec, slots)


def choice_bytes(spec: ModelSpec, slots: int) -> int:
    """Numbers of slots and whether they ascend, of a layer the arrays of ``best``, of a head its rows."""
    keys = whole_keys(spec)
    per_slot = 9 * keys.layers * keys.kv_heads + 28 * keys.kv_heads + kv_row_bytes(keys.head_dim)
    return per_slot * slots
