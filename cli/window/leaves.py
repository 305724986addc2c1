"""The blocks of a Markdown text in a row: paragraphs, code and tables, each with the indent it stands at."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import field
from functools import cache

from markdown_it import MarkdownIt
from markdown_it.token import Token

from edgedec.cli.window.styles import Styles
from edgedec.core.quick_dataclass import dataclass

_UNDECIDED = re.compile(r"[ \t>]*(?:[-*+#`~|:=_ ]+|\d{1,9}[.)]?|(?:`{3}|~{3})[^`]*)?")
"""A line that may yet become a heading, an item, a rule or a fence, or a fence of another language."""
_UNDECIDED_CHARS = 300
"""A longer line is shown, whatever it may become."""


@cache
def parser() -> MarkdownIt:
    """Markdown as models write it.

    - Not as HTML, and without definitions of links: what a model writes is shown.
    - Backslashes stay, for they begin formulas.
    - A heading begins with ``#``: text never becomes one by what follows.
    """
    rules = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    return rules.disable(["lheading", "reference", "escape", "html_block", "html_inline"])


@dataclass
class Leaf:
    """A block that holds no others.

    ``kind`` is "text", "heading", "code", "rule" or "table". ``start`` and ``end`` are lines of the source,
    ``top`` the first line of the outermost block around it.
    """

    kind: str
    first: str
    """The indent of its first line, which may have the mark of an item."""
    rest: str
    start: int
    end: int
    top: int
    tokens: list[Token] = field(default_factory=list)

    @property
    def inline(self) -> Token:
        return next(token for token in self.tokens if token.type == "inline")

    @property
    def closed(self) -> bool:
        """Whether the fence of a block of code has ended."""
        return self.end - self.start == self.tokens[0].content.count("\n") + 2


@dataclass
class _Container:
    mark: str
    rest: str
    used: bool = False


def leaves(source: str, styles: Styles) -> list[Leaf]:
    """Return the blocks of ``source`` in order.

    Many models put a whole reply into a fence of Markdown. Its blocks stand in the place of such a fence.
    """
    return list(_walk(list(_unwrapped(parser().parse(source))), styles))


def _unwrapped(tokens: Sequence[Token]) -> Iterator[Token]:
    for token in tokens:
        if token.type != "fence" or token.info.strip().lower() not in _MARKDOWN:
            yield token
            continue
        yield Token("markdown", "", 0, map=token.map, level=token.level)
        start = token.map[0] + 1 if token.map else 0
        for inner in parser().parse(token.content):
            inner.level += token.level + 1
            inner.map = inner.map and [start + line for line in inner.map]
            yield inner


def decided(source: str) -> str:
    """Return ``source`` without its last line while that may yet become another kind of block."""
    head, newline, last = source.rpartition("\n")
    return head + newline if len(last) < _UNDECIDED_CHARS and _UNDECIDED.fullmatch(last) else source


def _walk(tokens: Sequence[Token], styles: Styles) -> Iterator[Leaf]:
    around: list[_Container] = []
    top = at = 0
    while at < len(tokens):
        token = tokens[at]
        if token.level == 0 and token.map:
            top = token.map[0]
        if token.type == "list_item_open":
            mark = f"{token.info}{token.markup} " if token.info else f"{styles.bullet} "
            around.append(_Container(mark, " " * len(mark)))
        elif token.type == "blockquote_open":
            around.append(_Container(styles.bar, styles.bar))
        elif token.type in ("list_item_close", "blockquote_close"):
            around.pop()
        elif (kind := _KINDS.get(token.type)) is not None:
            end = _closing(tokens, at)
            first, last = token.map or [top, top]
            yield Leaf(kind, *_indents(around), first, last, top, list(tokens[at : end + 1]))
            at = end
        at += 1


_MARKDOWN = ("markdown", "md")
_KINDS = {
    "paragraph_open": "text",
    "heading_open": "heading",
    "fence": "code",
    "code_block": "code",
    "hr": "rule",
    "table_open": "table",
}


def _closing(tokens: Sequence[Token], at: int) -> int:
    if tokens[at].nesting == 0:
        return at
    level = tokens[at].level
    return next(end for end in range(at + 1, len(tokens)) if tokens[end].level == level)


def _indents(around: Sequence[_Container]) -> tuple[str, str]:
    first = "".join(one.rest if one.used else one.mark for one in around)
    for one in around:
        one.used = True
    return first, "".join(one.rest for one in around)
