"""Memory as bookkeeping, without tensors: contents and bytes of a cache; and giving back freed memory."""

from __future__ import annotations

from edgedec.core.cache_config import KvType
from edgedec.memory.cache_book import CacheBook, PlannedPass
from edgedec.memory.sizes import (
    kv_bytes,
    kv_row_bytes,
    kv_row_name,
    most_undone,
    ring_kept,
    ring_keys,
    ring_slots,
    slot_bytes,
    state_bytes,
    whole_keys,
)
from edgedec.memory.state_book import StateBook

__all__ = [
    "CacheBook",
    "KvType",
    "PlannedPass",
    "StateBook",
    "kv_bytes",
    "kv_row_bytes",
    "kv_row_name",
    "most_undone",
    "ring_kept",
    "ring_keys",
    "ring_slots",
    "slot_bytes",
    "state_bytes",
    "whole_keys",
]
