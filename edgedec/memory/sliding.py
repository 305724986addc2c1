"""Attention sinks and a window, when the cache is full: Xiao et al. 2024, "Efficient Streaming Language
Models with Attention Sinks" (StreamingLLM). Lossy: what has left is seen no more.

The first tokens stay, the sinks, which attention falls on whatever they are; of those behind them the oldest
leave, a quarter of the cache at a time, and nothing is fed again. What stays keeps its position. StreamingLLM
counts positions anew within the cache, so it can go on for ever; here keys lie in the cache rotated already,
and rounded, so positions go on as in the text, and where the model's own context ends, so does the reply.
"""

from __future__ import annotations

from edgedec.core.errors import UnsupportedError
from edgedec.core.types import Evicting, Forward

LOSSY = "sinks+window"
"""What this is called where it has acted."""
SINKS = 4
"""As many as StreamingLLM keeps."""
_SHARE = 4
"""A quarter of the cache leaves at a time, and no more than that stays for ever."""
_WINDOWED = ("gemma2", "gemma3", "phi3")
"""Architectures with layers that see the newest tokens alone: these would take the sinks for such."""


class Sliding:
    """Makes room in ``forward``'s cache. Raises UnsupportedError for one that cannot be right then.

    A block leaves only when a committed token has no slot. So what a token sees follows from the sequence,
    and not from how it was cut into passes: drafts change no token here either.
    """

    def __init__(self, forward: Forward) -> None:
        name = forward.spec.name
        if not isinstance(forward, Evicting):
            raise UnsupportedError(
                f"tokens cannot leave the cache of {name}, which another runtime keeps",
                hint="leave out --when-full slide",
            )
        if forward.spec.architecture in _WINDOWED:
            raise UnsupportedError(
                f"{name} has layers that see a window of their own; its cache cannot slide",
                hint="leave out --when-full slide, or use a larger --context",
            )
        self._forward: Forward = forward
        self._cache: Evicting = forward
        self._sinks = SINKS
        self._told = False
        self.tokens = 0
        """How many have left, in all."""

    @property
    def limit(self) -> int:
        """Positions that the model was made for."""
        return self._forward.spec.context_length

    @property
    def gap(self) -> range:
        """Positions of the tokens that the cache lacks now."""
        return self._cache.evicted

    def keep(self, preamble: int) -> None:
        """Let so many tokens at the beginning stay, a system message, if that leaves enough to others."""
        self._sinks = preamble if SINKS <= preamble <= self._forward.capacity // _SHARE else SINKS

    def room(self) -> int:
        """Free slots, at least one: where there was none, a block has left."""
        gap, capacity = self.gap, self._forward.capacity
        if free := capacity - (self._forward.length - len(gap)):
            return free
        block = max(capacity // _SHARE, 1)
        self._cache.evict(gap.start if gap else min(self._sinks, capacity // _SHARE), block)
        self.tokens += block
        return block

    def resident(self, length: int) -> int:
        """The longest beginning of the sequence, up to ``length`` tokens, that the cache can go back to."""
        gap = self.gap
        return min(length, gap.start) if gap and length < gap.stop else length

    def news(self) -> str | None:
        """One line for the user, once tokens have left; None before that, and after it was asked for."""
        if self._told or not self.tokens:
            return None
        self._told = True
        return (
            f"lossy ({LOSSY}): the context was full; the oldest tokens but for the first have left the cache,"
            " the model sees them no more, and a saved conversation will be read again"
        )
