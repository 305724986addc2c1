"""Markdown inside a paragraph: emphasis, code and links, while the text still comes."""

from __future__ import annotations

import re
from collections.abc import Sequence

from markdown_it.token import Token
from rich.style import Style
from rich.text import Text

from edgedec.cli import screen
from edgedec.cli.window.styles import Styles

_CODE_SPAN = re.compile(r"(?<!`)(`+)(?!`).*?(?<!`)\1(?!`)", re.DOTALL)
_DELIMITER = re.compile(r"\*{1,3}|_{1,3}|~~")
_LINK_BEGUN = re.compile(r"!?\[[^\]\n]*\]?$|!?\[[^\]\n]*\]\([^)\n]*$")
_GIVE_UP_CHARS = 400
"""Markup that is open for so long was none."""


def styled(children: Sequence[Token], styles: Styles) -> Text:
    """Return the text of parsed tokens. Links are followed by their address, and cannot be clicked."""
    text = Text()
    around: list[Style] = []
    links: list[tuple[int, str]] = []

    def add(content: str, style: Style | None = None) -> None:
        text.append(screen.harmless(content), Style.combine([Style.null(), *around, style or Style.null()]))

    for token in children:
        match token.type:
            case "softbreak" | "hardbreak":
                text.append("\n")
            case "strong_open":
                around.append(styles.bold)
            case "em_open":
                around.append(styles.italic)
            case "s_open":
                around.append(styles.strike)
            case "strong_close" | "em_close" | "s_close":
                around.pop()
            case "code_inline":
                add(token.content if styles.colours else f"`{token.content}`", styles.code)
            case "link_open":
                links.append((len(text), str(token.attrs.get("href", ""))))
            case "link_close":
                start, address = links.pop()
                if address.removeprefix("mailto:") != text.plain[start:]:
                    add(f" ({address})", styles.dim)
            case "image":
                add(f"{token.content} ({token.attrs.get('src', '')})")
            case _:
                add(token.content)
    return text


def closed(source: str) -> tuple[str, bool]:
    """Complete a paragraph that is cut in the middle of its markup, so that the part can be shown.

    The second result says whether text before the end may yet look different.
    """
    bare = _CODE_SPAN.sub(lambda match: "x" * len(match.group()), source)
    ticks = re.search(r"`+", bare)
    open_code = ticks is not None and len(source) - ticks.start() < _GIVE_UP_CHARS
    if ticks and open_code:
        bare = bare[: ticks.start()]
    stack = _open_emphasis(bare)
    shown = source
    if ticks and open_code:
        body = source[ticks.end() :]
        shown = source + ticks.group() if body.strip("`") else source[: ticks.start()]
    elif tail := re.search(r"[*_~]+$", shown):
        shown = shown[: tail.start()]
        stack = [one for one in stack if one[0] < tail.start()]
    closers = "".join(mark for _, mark in reversed(stack))
    if closers and not open_code:
        shown = shown.rstrip()
    last_line = source.rpartition("\n")[2].lstrip()
    undecided = _LINK_BEGUN.search(bare[-_GIVE_UP_CHARS:]) is not None or last_line.startswith("|")
    return shown + closers, bool(stack or open_code or undecided or shown != source)


def _open_emphasis(bare: str) -> list[tuple[int, str]]:
    """Find the delimiters that nothing has closed yet, with their places."""
    stack: list[tuple[int, str]] = []
    for match in _DELIMITER.finditer(bare):
        mark, before, after = match.group(), bare[: match.start()][-1:], bare[match.end() :][:1]
        marks = [one for _, one in stack]
        if mark in marks and before.strip():
            del stack[marks.index(mark) :]
        elif after.strip() and not (mark[0] == "_" and before.isalnum()):
            stack.append((match.start(), mark))
    return [one for one in stack if len(bare) - one[0] < _GIVE_UP_CHARS]
