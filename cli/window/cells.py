"""Widths of text in a terminal's cells: the most that any terminal draws.

Terminals disagree about characters that are made of several: the emoji of a family takes two cells in one,
and eight in another. A row that is drawn again must not be wider than the window in either, or it stands
there twice. So a cluster counts as the wider of both: drawn as one, and part by part.
"""

from __future__ import annotations

from collections.abc import Iterator

from wcwidth import iter_graphemes, wcswidth, wcwidth


def clusters(text: str) -> Iterator[tuple[str, int]]:
    """Yield what a user sees as one character, each with its most cells."""
    if text.isascii():
        for char in text:
            yield char, 1
        return
    for cluster in iter_graphemes(text):
        yield cluster, _most(cluster)


def cells(text: str) -> int:
    """Return the most cells that ``text`` takes."""
    return len(text) if text.isascii() else sum(size for _, size in clusters(text))


def _most(cluster: str) -> int:
    apart = sum(max(wcwidth(char), 0) for char in cluster)
    return apart if len(cluster) == 1 else max(apart, wcswidth(cluster))
