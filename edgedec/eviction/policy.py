"""Base of the eviction policies. Eviction is lossy: the model no longer sees evicted tokens.

The first tokens stay: attention sinks, which every token attends to (Xiao et al. 2024, "Efficient Streaming
Language Models with Attention Sinks"), or a system message. A quarter of the cache is evicted at a time from
the tokens behind them. The policy chooses which, and nothing is fed again. Tokens that stay keep their
positions. StreamingLLM counts positions anew within the cache, so it can go on for ever; here keys lie in the
cache rotated already, and rounded, so positions go on as in the text, and where the model's own context ends,
so does the reply.
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
"""A quarter of the cache leaves at a time, and no more than that stays for ever."""


class Policy(ABC):
    """Makes room in ``forward``'s cache. Raises UnsupportedError for one that cannot be right then.

    A block leaves only when a committed token has no slot, and its tokens follow from committed tokens.
    So the tokens that a token sees follow from the sequence, not from its division into passes: drafts change
    no token here either.
    """

    lossy: ClassVar[str]
    """Name of the policy in statistics, once it has acted."""
    leaving: ClassVar[str]
    """The evicted tokens, in words."""

    def __init__(self, forward: Forward) -> None:
        if not forward.caps.evicts:
            reason = (
                "it has layers that see a window of their own"
                if forward.caps.reserves
                else "another runtime keeps it"
            )
            raise UnsupportedError(
                f"no tokens can leave the KV cache of {forward.spec.name}: {reason}",
                hint="stop when the context is full, or use a larger context",
                remedy=(Remedy("when_full"), Remedy("context")),
            )
        self._forward = forward
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
        """Positions that the cache lacks now, or of which it lacks some."""
        return self._forward.evicted

    @property
    def missing(self) -> int:
        """How many tokens of the sequence the cache lacks now."""
        return self._forward.length - self._forward.resident

    @property
    def quarter(self) -> int:
        """Slots, rounded down."""
        return self._forward.capacity // _SHARE

    @property
    def slots(self) -> int:
        """Slots for tokens of the sequence."""
        return self._forward.capacity

    def keep(self, preamble: int) -> None:
        """Let so many tokens at the beginning stay, a system message, if that leaves enough to others."""
        self._sinks = preamble if SINKS <= preamble <= self.quarter else SINKS

    def room(self, committed: Sequence[int]) -> int:
        """Free slots, at least one: where there was none, a block has left. ``committed``: the sequence, of
        which the cache holds the beginning. Raises the errors of ``Forward.extend``; the cache then holds no
        more than that beginning.
        """
        if (free := self.slots - self._forward.resident) > 0:
            return free
        block = max(self.quarter, 1)
        count = block - free
        gap = self.gap
        self._evict(gap.start if gap else min(self._sinks, self.quarter), count, committed)
        self.tokens += count
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
            f"lossy ({self.lossy}): the context was full; {self.leaving}, the model sees them no more, and a"
            " saved conversation will be read again"
        )

    @abstractmethod
    def _evict(self, first: int, count: int, committed: Sequence[int]) -> None:
        """Let ``count`` tokens leave that are behind the first ``first`` slots."""
