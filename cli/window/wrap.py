"""Wrapping of words at the width of a window, counted in cells.

A line that is broken stays as it is when more text follows. So a paragraph can be printed line by line while
it still grows.
"""

from __future__ import annotations

from collections.abc import Iterator
from unicodedata import category

from rich.text import Text

from edgedec.cli.window.cells import clusters

_NOT_FIRST = ("Po", "Pe", "Pf", "Lm")
"""Categories of characters that do not begin a line: a full stop, a bracket that closes."""


def wrapped(text: Text, width: int) -> list[tuple[int, Text]]:
    """Return the lines of ``text``, each with the index of the first character that follows it.

    Blanks at the end of a line are left out. There is always one line at least.
    """
    found: list[tuple[int, Text]] = []
    plain = text.plain
    for start, end, following in _spans(plain, max(width, 2)):
        found.append((following, text[start:end] if end > start else Text()))
    return found


def chopped(text: Text, width: int) -> list[Text]:
    """Cut ``text`` into rows that are full, whatever its words are."""
    starts, used, at = [0], 0, 0
    for cluster, size in clusters(text.plain):
        if used + size > max(width, 2) and at > starts[-1]:
            starts.append(at)
            used = 0
        used += size
        at += len(cluster)
    ends = [*starts[1:], len(text.plain)]
    return [text[start:end] if end > start else Text() for start, end in zip(starts, ends, strict=True)]


def _spans(plain: str, width: int) -> Iterator[tuple[int, int, int]]:
    """Yield start, end and the start of the rest of every line."""
    start, size = 0, len(plain)
    while True:
        newline = plain.find("\n", start)
        stop = size if newline < 0 else newline
        if (at := _break(plain, start, stop, width)) < stop:
            yield start, _trimmed(plain, start, at), at
            start = at
            continue
        yield start, _trimmed(plain, start, stop), min(stop + 1, size)
        if newline < 0:
            return
        start = stop + 1


def _break(plain: str, start: int, stop: int, width: int) -> int:
    """Return where the line from ``start`` is broken; ``stop`` if all of it fits."""
    used, after_blank, after_wide, possible, at = 0, False, False, start, start
    for cluster, size in clusters(plain[start:stop]):
        if cluster == " ":
            after_blank = True
        else:
            wide = size > 1 or after_wide
            if at > start and (after_blank or (wide and size and category(cluster[0]) not in _NOT_FIRST)):
                possible = at
            after_blank = False
            if used + size > width and at > start:
                return possible if possible > start else at
        after_wide = size > 1
        used += size
        at += len(cluster)
    return stop


def _trimmed(plain: str, start: int, end: int) -> int:
    while end > start and plain[end - 1] == " ":
        end -= 1
    return end
