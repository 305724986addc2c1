"""Tell a reply that goes round in circles from one that goes on."""

from __future__ import annotations

from collections.abc import Sequence

TAIL_TOKENS = 256
"""Tokens at the end of a reply that are looked at."""
LONGEST_TOKENS = 64
"""Longest piece whose repetitions count: it stands in the tail four times or more."""


def loops(tokens: Sequence[int]) -> bool:
    """Whether the last 256 tokens are one piece of at most 64 tokens, over and over.

    >>> loops([7, 8, 9] * 100), loops(list(range(300)))
    (True, False)
    """
    tail = list(tokens[-TAIL_TOKENS:])
    if len(tail) < TAIL_TOKENS:
        return False
    return any(tail[period:] == tail[:-period] for period in range(1, LONGEST_TOKENS + 1))
