"""Places of a prompt behind which later prompts may go on otherwise."""

from __future__ import annotations

from collections.abc import Collection, Sequence

_TURNS_BACK = 2, 4
"""Ends of messages, from the last one on: before the last message, and before the one that it answers."""
_LEAST_TOKENS = 64
"""Tokens that are worth a stop: fewer are read again as quickly."""
_LONG_TOKENS = 1024
"""Tokens of a text, behind which a place near its end counts too."""
_TAIL_TOKENS = 256


def turn_ends(prompt: Sequence[int], end_ids: Collection[int]) -> list[int]:
    """Return how many tokens lie before each place, ascending; ``end_ids`` end a message.

    These are the end of the first message, which may be the system's, those of the messages before the last
    ones, and a place near the end of a long text. Reading stops there, so that it can go on from there again.

    >>> turn_ends([1] * 99 + [0] + [2] * 99 + [0] + [3] * 99 + [0] + [4] * 5, {0})
    [100, 200]
    """
    ends = [at + 1 for at, token in enumerate(prompt) if token in end_ids]
    places = {ends[0], *(ends[-back] for back in _TURNS_BACK if back <= len(ends))} if ends else set[int]()
    if len(prompt) - max(places, default=0) > _LONG_TOKENS:
        places.add(len(prompt) - _TAIL_TOKENS)
    found: list[int] = []
    for at in sorted(places, reverse=True):
        far = (found[-1] if found else len(prompt)) - at >= _LEAST_TOKENS
        if at >= _LEAST_TOKENS and (far or at == ends[0]):  # others begin behind the first message
            found.append(at)
    return found[::-1]
