"""What speculation may lose: little, and never more.

Whatever drafters claim and texts do, every second beyond what plain decoding would have taken is paid out of
this account. It is filled by what speculation has won, up to a limit, and by a small share of all tokens. So
decoding is never slower than plain by more than that share and the first instalment.
"""

from __future__ import annotations

_FIRST = 2.0
_MOST = 12.0
_SHARE = 0.008


class Credit:
    """In passes over one token, ``passes`` of them; below zero means: no drafts now."""

    def __init__(self, first: float = _FIRST, most: float = _MOST, share: float = _SHARE) -> None:
        self.passes = first
        self._most = most
        self._share = share

    def book(self, tokens: int, cost: float) -> None:
        """A round committed ``tokens`` and took as long as ``cost`` passes over one token."""
        won = tokens * (1.0 + self._share) - cost
        self.passes = max(min(self.passes + won, self._most), -self._most)
