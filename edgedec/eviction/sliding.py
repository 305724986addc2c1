"""Eviction by age: attention sinks and a window of the newest tokens stay.

After Xiao et al. 2024, "Efficient Streaming Language Models with Attention Sinks" (StreamingLLM).
"""

from __future__ import annotations

from collections.abc import Sequence

from edgedec.eviction.policy import Policy


class Sliding(Policy):
    """Evicts the oldest tokens behind the first ones."""

    lossy = "sinks+window"
    leaving = "the oldest tokens but for the first have left the cache"

    def _evict(self, first: int, count: int, committed: Sequence[int]) -> None:
        self._evicting.evict(first, count)
