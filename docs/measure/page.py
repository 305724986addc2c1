"""The page's tables, each between two marks: ``<!-- table NAME -->`` and ``<!-- end -->``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from edgedec.disk.files import atomic_path

_END = "<!-- end -->"
_MOST_WORDS = 2500


def _mark(name: str) -> str:
    return f"<!-- table {name} -->"


def with_table(page: str, name: str, title: str, block: str) -> str:
    """Return the page with the table replaced, or added at its end under ``title``.

    Raises ValueError for a table that has no end.
    """
    whole = f"{_mark(name)}\n{block.rstrip()}\n{_END}"
    start = page.find(_mark(name))
    if start < 0:
        return f"{page.rstrip()}\n\n## {title}\n\n{whole}\n"
    end = page.find(_END, start)
    if end < 0 or "<!-- table" in page[start + 1 : end]:
        raise ValueError(f"the table {name} has no {_END}")
    return page[:start] + whole + page[end + len(_END) :]


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown, without spaces around cells: each mark alone would count as a word."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"|{'|'.join(line)}|" for line in lines)


def replace_in(file: Path, name: str, title: str, block: str) -> None:
    """Replace a table of the page in one step: a reader sees the old page or the new one."""
    text = with_table(file.read_text(encoding="utf-8"), name, title, block)
    with atomic_path(file) as temporary:
        temporary.write_text(text, encoding="utf-8")


def excess_words(page: str) -> int:
    """Return the words that the page has above the most it should have; 0 for none."""
    prose = re.sub(r"<!--.*?-->", "", page)
    return max(len(prose.split()) - _MOST_WORDS, 0)
