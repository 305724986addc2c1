"""Styles of a rendered reply: colours that can be read on black and on white, and no backgrounds.

The luminance of each colour is about 0.18 of white's, so its contrast is above 3.5 on either ground.
"""

from __future__ import annotations

from pygments.token import (
    Comment,
    Generic,
    Keyword,
    Literal,
    Name,
    Number,
    Operator,
    String,
    _TokenType,
)
from rich.style import Style

from edgedec.core.quick_dataclass import dataclass

COLOURS = {"grey": 243, "red": 160, "green": 28, "brown": 130, "blue": 27, "magenta": 163, "cyan": 30}
"""Numbers in the palette of xterm (256 colours); a terminal with fewer gets the nearest."""


def _style(colour: str) -> Style:
    return Style(color=f"color({COLOURS[colour]})")


_CODE = {
    Comment: _style("grey"),
    Comment.Preproc: _style("brown"),
    Keyword: _style("magenta"),
    Keyword.Constant: _style("cyan"),
    Operator.Word: _style("magenta"),
    String: _style("green"),
    Number: _style("cyan"),
    Literal: _style("cyan"),
    Name.Builtin: _style("cyan"),
    Name.Function: _style("blue"),
    Name.Class: _style("blue"),
    Name.Tag: _style("blue"),
    Name.Decorator: _style("brown"),
    Name.Attribute: _style("brown"),
    Name.Exception: _style("red"),
    Generic.Deleted: _style("red"),
    Generic.Inserted: _style("green"),
    Generic.Heading: Style(bold=True),
    Generic.Subheading: Style(bold=True),
}
_PLAIN = Style.null()


@dataclass(frozen=True)
class Styles:
    """The styles of Markdown. Without ``colours`` inline code keeps its backticks: nothing else shows it."""

    colours: bool
    unicode: bool
    """Whether the terminal's encoding has bullets and lines."""
    bold = Style(bold=True)
    italic = Style(italic=True)
    strike = Style(strike=True)
    dim = Style(dim=True)
    title = Style(bold=True, underline=True)
    code = _style("cyan")

    @property
    def bullet(self) -> str:
        return "•" if self.unicode else "-"

    @property
    def bar(self) -> str:
        return "│ " if self.unicode else "> "

    @property
    def dash(self) -> str:
        return "─" if self.unicode else "-"

    def of_token(self, kind: _TokenType) -> Style:
        """Return the style of a token of code, which is that of the nearest kind above it."""
        while kind is not None:
            if (style := _CODE.get(kind)) is not None:
                return style
            kind = kind.parent
        return _PLAIN
