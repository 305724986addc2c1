"""Added tokens, which are found in a text before anything else is."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence

from edgedec.core.quick_dataclass import dataclass

_SEPARATORS = "\x1c\x1d\x1e\x1f"
"""White space in Python, and not in Unicode."""


@dataclass(frozen=True, slots=True)
class AddedToken:
    """A token that is found in a text before anything else is."""

    content: str
    special: bool
    normalized: bool = False
    lstrip: bool = False
    rstrip: bool = False
    single_word: bool = False


def cut_at_special(text: str, added: Mapping[int, AddedToken], literal: Sequence[int]) -> Iterator[str | int]:
    """Yield the control tokens in ``text`` as ids, and what is between them as texts.

    No control token contains one of the characters at ``literal``, ascending indices. Otherwise they are
    found as the library finds them: leftmost, then longest, with their flags. Those that the library finds
    after its normaliser are found as they are written.
    """
    ids = {
        one.content: id for id, one in added.items() if one.content and (one.special or not one.normalized)
    }
    found = re.compile("|".join(map(re.escape, sorted(ids, key=len, reverse=True))) or r"(?!)")
    at = done = 0
    while match := found.search(text, at):
        start, end = match.span()
        at = end
        place = bisect_left(literal, start)
        if place < len(literal) and literal[place] < end and added[ids[match[0]]].special:
            shorter = found.match(text, start, literal[place])
            if shorter is None or shorter.end() == start:
                at = start + 1
                continue
            match, at = shorter, shorter.end()
            end = at
        token = added[ids[match[0]]]
        if not token.special or (token.single_word and not _alone(text, start, end)):
            continue
        while token.lstrip and start > done and _is_space(text[start - 1]):
            start -= 1
        while token.rstrip and end < len(text) and _is_space(text[end]):
            end += 1
        if start > done:
            yield text[done:start]
        yield ids[match[0]]
        done = max(end, done)
    if done < len(text):
        yield text[done:]


def _alone(text: str, start: int, end: int) -> bool:
    """Tell whether no letter or digit stands beside a stretch."""
    return not re.match(r"\w", text[start - 1 : start]) and not re.match(r"\w", text[end : end + 1])


def _is_space(char: str) -> bool:
    return char.isspace() and char not in _SEPARATORS
