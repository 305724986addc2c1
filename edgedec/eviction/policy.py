"""Base of the eviction policies. Eviction is lossy: the model no longer sees evicted tokens.

The first tokens stay: attention sinks, which every token attends to (Xiao et al. 2024, "Efficient Streaming
Language Models with Attention Sinks"), or a system message. A quarter of the cache is evicted at a time from
the tokens behind them; the policy chooses which. Nothing is fed again.

Tokens that stay keep their positions. StreamingLLM renumbers positions within the cache, so it can go on for
ever. Here the cache holds keys after rotation and rounding, so positions count on as in the text, and a reply
ends where the model's own context ends.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from edgedec.core.errors import Remedy, UnsupportedError
from edgedec.core.forward import Forward

SINKS = 4
"""As many as StreamingLLM keeps."""
_SHARE = 4
"""A quarter of the cache is evicted at a time, and at most a quarter is never evicted."""


class Policy(ABC):
    """Makes room in the KV cache of ``forward``. Raises UnsupportedError where nothing can leave it.

    A block is evicted only when a committed token has no slot, and only committed tokens decide which. So the
    tokens that a token sees depend on the sequence, not on its division into passes: drafts change no token.
    """

    lossy: ClassVar[str]
    """Name of the policy in statistics, once it has acted."""
    leaving: ClassVar[str]
    """The tokens that it evicts, in words."""

    def __init__(self, forward: Forward) -> None:
        if forward.evicting is None:
            raise UnsupportedError(
                f"no tokens can leave the KV cache of {forward.spec.name}: {_reason(forward)}",
                hint="stop when the context is full, or use a larger context",
                remedy=(Remedy("when_full"), Remedy("context")),
            )
        self._forward, self._evicting = forward, forward.evicting
        self._sinks = SINKS
        self._told = False
        self.tokens = 0
        """Tokens evicted so far."""

    @property
    def limit(self) -> int:
        """Positions that the model was made for."""
        return self._forward.spec.context_length

    @property
    def gap(self) -> range:
        """Positions of the zone that tokens were evicted from; some may have stayed."""
        return self._evicting.evicted

    @property
    def missing(self) -> int:
        """Tokens of the sequence that the cache lacks now."""
        return self._forward.length - self._evicting.resident

    @property
    def quarter(self) -> int:
        """A quarter of the slots, rounded down."""
        return self._forward.capacity // _SHARE

    @property
    def slots(self) -> int:
        """Slots for tokens of the sequence."""
        return self._forward.capacity

    def keep(self, preamble: int) -> None:
        """Never evict the first ``preamble`` tokens (a system message), unless they fill over a quarter."""
        self._sinks = preamble if SINKS <= preamble <= self.quarter else SINKS

    def room(self, committed: Sequence[int]) -> int:
        """Return the free slots, at least one; a full cache evicts a block first.

        ``committed``: the sequence, whose beginning the cache holds. Raises the errors of ``Forward.extend``;
        the cache then holds no more than that beginning.
        """
        if (free := self.slots - self._evicting.resident) > 0:
            return free
        block = max(self.quarter, 1)
        count = block - free
        gap = self.gap
        self._evict(gap.start if gap else min(self._sinks, self.quarter), count, committed)
        self.tokens += count
        return block

    def resident(self, length: int) -> int:
        """Return the most tokens, up to ``length``, that the cache can be rewound to."""
        gap = self.gap
        return min(length, gap.start) if gap and length < gap.stop else length

    def news(self) -> str | None:
        """Return one line for the user after the first eviction; None before it, and at every later call."""
        if self._told or not self.tokens:
            return None
        self._told = True
        return (
            f"lossy ({self.lossy}): the context was full; {self.leaving}, the model sees them no more, and a"
            " saved conversation will be read again"
        )

    @abstractmethod
    def _evict(self, first: int, count: int, committed: Sequence[int]) -> None:
        """Evict ``count`` tokens from those behind the first ``first`` slots."""


def _reason(forward: Forward) -> str:
    if forward.spec.states:
        return "it keeps recurrent states, which cannot forget a token"
    if forward.caps.reserves:
        return "it has layers that see a window of their own"
    return "another runtime keeps it"
