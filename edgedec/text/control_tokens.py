"""Guards against control tokens in chat messages and tools: their texts stay texts."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from edgedec.core.errors import UsageError
from edgedec.core.quick_dataclass import dataclass

# Unicode noncharacters: never part of real text, left alone by every template filter.
_MARKERS = [chr(code) for code in range(0xFDD0, 0xFDF0)]
_MOST_DEPTH = 64
"""Levels of mappings and lists within each other."""


@dataclass(frozen=True, slots=True)
class GuardedText:
    """A rendered prompt with texts from outside in it.

    ``literal``: ascending indices of the characters that no control token may contain, because a text from
    outside begins like a control token there.
    """

    text: str
    literal: tuple[int, ...] = ()

    def part(self, start: int, end: int | None = None) -> GuardedText:
        """Return the text from ``start`` to ``end``."""
        first = bisect_left(self.literal, start)
        last = None if end is None else bisect_left(self.literal, end)
        return GuardedText(self.text[start:end], tuple(at - start for at in self.literal[first:last]))


class _Finder:
    """Finds control-token texts. It is cheap, because almost all of them share a first character."""

    def __init__(self, special: Mapping[str, int]) -> None:
        self._special = special
        self._lengths: dict[str, list[int]] = {}
        for text in special:
            lengths = self._lengths.setdefault(text[0], [])
            if len(text) not in lengths:
                lengths.append(len(text))
        for lengths in self._lengths.values():
            lengths.sort(reverse=True)

    def starts(self, text: str) -> list[int]:
        """Return the ascending indices of every character that some control token starts with."""
        found: list[int] = []
        for char in self._lengths:
            at = text.find(char)
            while at >= 0:
                found.append(at)
                at = text.find(char, at + 1)
        return sorted(found)

    def matches(self, text: str, at: int) -> bool:
        """Tell whether there is the text of a control token at ``at``."""
        return any(text[at : at + length] in self._special for length in self._lengths[text[at]])

    def cut_off(self, text: str, at: int) -> bool:
        """Tell whether ``text`` from ``at`` to its end is the beginning of a control-token text."""
        tail = text[at:]
        return len(tail) <= self._lengths[text[at]][0] and any(s.startswith(tail) for s in self._special)


def guard_values(value: Any, special: Mapping[str, int]) -> tuple[Any, str | None]:
    """Copy mappings, lists and texts so that no text contains, or ends with a part of, one in ``special``.

    The keys of mappings are texts too. Returns the copy and the marker character that was inserted after the
    first character of each such text, or None if nothing was inserted. Raises UsageError if the texts use up
    all possible markers, or lie too deep.
    """
    finder = _Finder(special)
    texts = list(_texts(value))
    everything = "".join(texts)
    marker = next((char for char in _MARKERS if char not in everything), None)
    if marker is None:
        raise UsageError(
            "the messages contain every Unicode noncharacter from U+FDD0 to U+FDEF", hint="remove them"
        )
    guarded = {text: _guard(text, finder, marker) for text in texts}
    changed = any(text != new for text, new in guarded.items())
    return _mapped(value, guarded), marker if changed else None


def _texts(value: Any, depth: int = 0) -> Iterator[str]:
    """Yield every text of a nested value."""
    if depth > _MOST_DEPTH:
        raise UsageError(f"tools or arguments are nested deeper than {_MOST_DEPTH} levels")
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _texts(key, depth + 1)
            yield from _texts(item, depth + 1)
    elif isinstance(value, Sequence):
        for item in value:
            yield from _texts(item, depth + 1)


def _mapped(value: Any, texts: Mapping[str, str]) -> Any:
    """Copy a nested value with each text replaced."""
    if isinstance(value, str):
        return texts[value]
    if isinstance(value, Mapping):
        return {_mapped(key, texts): _mapped(item, texts) for key, item in value.items()}
    if isinstance(value, Sequence):
        return [_mapped(item, texts) for item in value]
    return value


def _guard(text: str, finder: _Finder, marker: str) -> str:
    pieces = []
    done = 0
    for at in finder.starts(text):
        if finder.matches(text, at) or finder.cut_off(text, at):
            pieces.append(text[done : at + 1] + marker)
            done = at + 1
    return "".join([*pieces, text[done:]])


def without_markers(text: str, marker: str | None) -> GuardedText:
    """Take the markers of ``guard_values`` out of a rendered text; the character before each is literal."""
    if marker is None:
        return GuardedText(text)
    pieces = text.split(marker)
    literal, done = [], 0
    for piece in pieces[:-1]:
        done += len(piece)
        if done:
            literal.append(done - 1)
    return GuardedText("".join(pieces), tuple(dict.fromkeys(literal)))
