"""Attention sinks and a window, when the cache is full: Xiao et al. 2024, "Efficient Streaming Language
Models with Attention Sinks" (StreamingLLM). Tokens are evicted by age alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from edgedec.eviction.policy import Policy


class Sliding(Policy):
    """The oldest tokens leave, but for the first ones."""

    lossy = "sinks+window"
    leaving = "the oldest tokens but for the first have left the cache"

    def _evict(self, first: int, count: int, committed: Sequence[int]) -> None:
        self._forward.evict(first, count)
