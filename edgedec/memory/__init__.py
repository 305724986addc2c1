"""Memory as bookkeeping: what a cache holds and what it costs, without any tensors."""

from __future__ import annotations

from edgedec.memory.cache_book import CacheBook, Pass
from edgedec.memory.sizes import kv_bytes

__all__ = ["CacheBook", "Pass", "kv_bytes"]
