"""A terminal's lines as a picture."""

from __future__ import annotations

import re
from collections.abc import Sequence
from io import StringIO
from itertools import groupby

from pyte.screens import Char
from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.style import Style
from rich.terminal_theme import TerminalTheme
from rich.text import Text

from docs.record.terminal import Line

FONTS = "ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
THEMES = {
    "dark": TerminalTheme(
        (13, 17, 23),
        (230, 237, 243),
        [
            (72, 79, 88), (255, 123, 114), (63, 185, 80), (210, 153, 34),
            (88, 166, 255), (188, 140, 255), (57, 197, 207), (177, 186, 196),
        ],
        [
            (110, 118, 129), (255, 161, 152), (86, 211, 100), (227, 179, 65),
            (121, 192, 255), (210, 168, 255), (86, 212, 221), (255, 255, 255),
        ],
    ),
    "light": TerminalTheme(
        (255, 255, 255),
        (31, 35, 40),
        [
            (36, 41, 47), (207, 34, 46), (17, 99, 41), (77, 45, 0),
            (9, 105, 218), (130, 80, 223), (27, 124, 131), (110, 119, 129),
        ],
        [
            (87, 96, 106), (164, 14, 38), (26, 127, 55), (99, 60, 1),
            (33, 139, 255), (164, 117, 249), (49, 146, 170), (140, 149, 159),
        ],
    ),
}  # fmt: skip
"""Colours of a common dark and a common light terminal: ground, text, eight normal, eight bright ones."""


def svg(lines: Sequence[Line], columns: int, title: str, theme: str) -> str:
    """The lines as an SVG with text in it; no font is loaded from elsewhere."""
    console = Console(
        record=True, width=columns, file=StringIO(), color_system="truecolor", force_terminal=True
    )
    for line in lines:
        console.print(_text(line, columns), no_wrap=True, overflow="ignore", crop=False, highlight=False)
    frame = re.sub(r"@font-face \{\{.*?\}\}\s*", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
    frame = frame.replace("Fira Code, monospace", FONTS)
    picture = console.export_svg(title=title, theme=THEMES[theme], code_format=frame, unique_id="t")
    return picture.replace("rgba(255,255,255,0.35)", "rgba(128,128,128,0.5)")  # a frame on white ground too


def png(picture: str) -> bytes:
    """An SVG as pixels, one for each of its units: other scales round the advance of characters."""
    import cairosvg

    known = picture.replace(FONTS, "monospace")  # cairo looks for the first font of a list alone
    known = known.replace("font-variant-east-asian: full-width;", "letter-spacing: 0.2px;")  # 12 to 12.2 px
    pixels: bytes = cairosvg.svg2png(bytestring=known.encode())
    return pixels


def _text(line: Line, columns: int) -> Text:
    """A line in as few pieces as it has styles."""
    text = Text()
    chars = [line.get(column, Char(" ")) for column in range(min(max(line, default=-1) + 1, columns))]
    for style, run in groupby(chars, _style):
        text.append("".join(char.data for char in run), style)
    text.rstrip()
    return text


def _style(char: Char) -> Style:
    return Style(
        color=_colour(char.fg),
        bgcolor=_colour(char.bg),
        bold=char.bold,
        italic=char.italics,
        underline=char.underscore,
        strike=char.strikethrough,
        reverse=char.reverse,
        dim=char.blink,
    )


def _colour(name: str) -> str | None:
    if name == "default":
        return None
    if re.fullmatch(r"[0-9a-f]{6}", name):
        return f"#{name}"
    return re.sub(r"^b[rf]ight", "bright_", name).replace("brown", "yellow")
