"""Guards against control tokens in chat messages: their texts stay texts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from edgedec.core.errors import UsageError

# Unicode noncharacters: never part of real text, left alone by every template filter.
_MARKERS = [chr(code) for code in range(0xFDD0, 0xFDF0)]


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

    def match(self, text: str, at: int, marker: str = "") -> str | None:
        """Return the longest control-token text at ``at`` that ``marker`` does not follow, or None."""
        for length in self._lengths[text[at]]:
            if marker and text[at + length : at + length + 1] == marker:
                continue
            if text[at : at + length] in self._special:
                return text[at : at + length]
        return None

    def cut_off(self, text: str, at: int) -> bool:
        """Tell whether ``text`` from ``at`` to its end is the beginning of a control-token text."""
        tail = text[at:]
        return len(tail) <= self._lengths[text[at]][0] and any(s.startswith(tail) for s in self._special)


def guard_messages(
    messages: Sequence[Mapping[str, str]], special: Mapping[str, int]
) -> tuple[list[dict[str, str]], str | None]:
    """Copy ``messages`` so that no value contains, or ends with a part of, a text in ``special``.

    Returns the copies and the marker character that was inserted after the first character of each such text,
    or None if nothing was inserted. Raises UsageError if the messages use up all possible markers.
    """
    finder = _Finder(special)
    everything = "".join(value for message in messages for value in message.values())
    marker = next((char for char in _MARKERS if char not in everything), None)
    if marker is None:
        raise UsageError(
            "the messages contain every Unicode noncharacter from U+FDD0 to U+FDEF", hint="remove them"
        )
    guarded = [{key: _guard(value, finder, marker) for key, value in message.items()} for message in messages]
    changed = any(new != dict(old) for new, old in zip(guarded, messages, strict=True))
    return guarded, marker if changed else None


def _guard(text: str, finder: _Finder, marker: str) -> str:
    pieces = []
    done = 0
    for at in finder.starts(text):
        if finder.match(text, at) or finder.cut_off(text, at):
            pieces.append(text[done : at + 1] + marker)
            done = at + 1
    return "".join([*pieces, text[done:]])


def split_special(text: str, special: Mapping[str, int], marker: str) -> Iterator[str | int]:
    """Cut ``text`` at the control-token texts (leftmost, then longest): plain text as str, tokens as ids.

    Guarded texts, those with ``marker`` inside, stay text.
    """
    finder = _Finder(special)
    done = 0
    for at in finder.starts(text):
        found = finder.match(text, at, marker) if at >= done else None
        if found is None:
            continue
        if at > done:
            yield text[done:at]
        yield special[found]
        done = at + len(found)
    if done < len(text):
        yield text[done:]
