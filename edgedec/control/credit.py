"""An account that bounds the time speculation may lose.

Every second beyond plain decoding is paid out of it. The time that speculation saves fills it, up to a limit,
and so does a small share of all tokens. So decoding is never slower than plain decoding by more than that
share and the first instalment, whatever drafters claim. A new sequence takes over no more than that, whatever
earlier ones saved.
"""

from __future__ import annotations

_FIRST = 3.0
_MOST = 12.0
LOSS_SHARE = 0.008
"""Share of all tokens that speculation may lose."""


class Credit:
    """A balance of ``passes``, in passes over one token; below zero nothing is drafted."""

    def __init__(self, first: float = _FIRST, most: float = _MOST, share: float = LOSS_SHARE) -> None:
        self.passes = self._first = first
        self._most = most
        self._share = share

    def begin(self) -> None:
        """Start a new sequence, perhaps another sort of text: what was saved before pays for a little."""
        self.passes = min(self.passes, self._first)

    def book(self, tokens: int, cost: float) -> None:
        """Record a round that committed ``tokens`` and took as long as ``cost`` passes over one token."""
        won = tokens * (1.0 + self._share) - cost
        self.passes = max(min(self.passes + won, self._most), -self._most)
