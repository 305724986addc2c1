"""Code in colours, otherwise exactly as it came: no ornament, no blanks added, tabs kept."""

from __future__ import annotations

from functools import lru_cache

from pygments.lexer import Lexer
from pygments.lexers import get_lexer_by_name
from pygments.util import ClassNotFound
from rich.text import Text

from edgedec.cli import screen
from edgedec.cli.window.styles import Styles

_MOST_CHARS = 30_000
"""Longer blocks stay without colours; so do blocks with a line longer than ``_MOST_LINE_CHARS``."""
_MOST_LINE_CHARS = 1_000


def highlighted(code: str, language: str, styles: Styles) -> list[Text]:
    """Return the lines of ``code``; the last one may be unfinished."""
    code = screen.harmless(code)
    lines = code.split("\n")
    lexer = _lexer(language) if styles.colours else None
    if lexer is None or len(code) > _MOST_CHARS or max(map(len, lines)) > _MOST_LINE_CHARS:
        return [Text(line) for line in lines]
    text = Text()
    for kind, part in lexer.get_tokens(_complete(code)):
        text.append(part, styles.of_token(kind))
    return list(text[: len(code)].split("\n", allow_blank=True)) or [Text()]


def _complete(code: str) -> str:
    """Close a comment that is still open: lexers take one for operators until they see its end."""
    return code + "*/" if code.rfind("/*") > code.rfind("*/") else code


@lru_cache(maxsize=32)
def _lexer(language: str) -> Lexer | None:
    try:
        return get_lexer_by_name(language, stripnl=False, ensurenl=False) if language else None
    except ClassNotFound:
        return None
