"""Memory as bookkeeping, without tensors: what a cache holds and costs; and giving back what was freed."""

from __future__ import annotations

from edgedec.memory.cache_book import CacheBook, Pass
from edgedec.memory.sizes import kv_bytes

__all__ = ["CacheBook", "Pass", "kv_bytes"]
