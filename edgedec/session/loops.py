"""Tell a reply that goes round in circles from one that goes on.

Three forms count, each in the last 256 tokens:

- one piece of at most 64 tokens, over and over;
- a numbered list whose lines go round: the same lines but for their numbers, four times or more;
- near repeats: nearly every token ends a piece of 32 tokens that has stood three times before.

Only the number that a line begins with is left out, and a list of numbers alone never counts: tables and
dates are right replies whose lines are alike.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence

TAIL_TOKENS = 256
"""Tokens at the end of a reply that are looked at."""
LONGEST_TOKENS = 64
"""Longest piece whose repetitions count: it stands in the tail four times or more."""
_NEAR_TOKENS, _NEAR_TIMES, _NEAR_SHARE = 32, 3, 0.9
_NEAR_BEFORE_TOKENS = 2048
"""Tokens before the tail in which near repeats are looked for."""
_REPEATS = TAIL_TOKENS // LONGEST_TOKENS
_LEAST_NUMBERED = 8
"""Numbered lines in the tail of a counted list."""
_NUMBER = re.compile(rb"^[ \t]*(?:[-*#>][ \t]*)?\**[0-9]+[.):]\**[ \t]+", re.MULTILINE)


def loops(tokens: Sequence[int], tail: bytes) -> bool:
    """Whether a reply goes round in circles. ``tail``: the text of its last 256 tokens.

    >>> loops([7, 8, 9] * 100, b""), loops(list(range(300)), b"")
    (True, False)
    >>> loops(list(range(300)), b"".join(b"%d. Shark\\n" % number for number in range(50)))
    True
    """
    if len(tokens) < TAIL_TOKENS:
        return False
    last = tokens[-TAIL_TOKENS:]
    return _goes_round(last, LONGEST_TOKENS) or _is_counted(tail) or _repeats_nearly(tokens)


def _goes_round(sequence: Sequence[Hashable], longest: int) -> bool:
    return any(sequence[period:] == sequence[:-period] for period in range(1, longest + 1))


def _is_counted(tail: bytes) -> bool:
    """Whether numbered lines go round; the first and the last line may be cut."""
    words, numbered = list[bytes](), 0
    for line in tail.split(b"\n")[1:-1]:
        bare, found = _NUMBER.subn(b"", line)
        numbered += found
        words += bare.split()
    return numbered >= _LEAST_NUMBERED and _goes_round(words, len(words) // _REPEATS)


def _repeats_nearly(tokens: Sequence[int]) -> bool:
    recent = tuple(tokens[-TAIL_TOKENS - _NEAR_BEFORE_TOKENS :])
    pieces = [recent[at : at + _NEAR_TOKENS] for at in range(len(recent) - _NEAR_TOKENS + 1)]
    if not pieces or pieces.count(pieces[-1]) <= _NEAR_TIMES:
        return False
    times, again = dict[tuple[int, ...], int](), 0
    for at, piece in enumerate(pieces):
        before = times.get(piece, 0)
        times[piece] = before + 1
        again += at >= len(pieces) - TAIL_TOKENS and before >= _NEAR_TIMES
    return again >= _NEAR_SHARE * TAIL_TOKENS
