"""The last rows of a terminal: lines are printed for good above them, and they are drawn again."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

from rich.color import ColorSystem
from rich.style import Style
from rich.text import Text

from edgedec.cli.window.cells import cells
from edgedec.cli.window.wrap import chopped

_SYNCHRONISED = "\x1b[?2026h", "\x1b[?2026l"
"""A terminal that knows this shows all that is between at once; others ignore it."""
_TAB_CELLS = 8

Row = list[tuple[str, Style]]


class Region:
    """Rows at the end of the output, with the cursor behind the last one.

    ``write`` takes text for the terminal, ``size`` returns its columns and rows. Rows that may change are
    never as wide as the window, so that each takes one line of it. Without ``colours`` styles keep bold,
    italic and the like.
    """

    def __init__(
        self, write: Callable[[str], None], size: Callable[[], tuple[int, int]], colours: ColorSystem | None
    ) -> None:
        self._write = write
        self._size = size
        self._colours = colours
        self._rows: list[Row] = []
        self.columns, self._height = size()

    @property
    def width(self) -> int:
        """Cells for text in a row."""
        return max(self.columns - 1, 2)

    @property
    def _most_rows(self) -> int:
        return max(self._height - 1, 1)

    def resized(self) -> bool:
        """Look at the size of the window. Return whether the rows may have been broken or pushed out by it.

        Nothing is drawn over then: what stands there stays, and the next rows begin on a new line.
        """
        self.columns, self._height = self._size()
        lost = len(self._rows) > self._most_rows or any(_cells(row) > self.columns for row in self._rows)
        if lost:
            self._write("\n")
            self._rows = []
        return lost

    def draw(self, final: list[Text], live: list[Text]) -> None:
        """Print ``final`` in place of the rows, and ``live`` as the new rows, as many as fit the window."""
        rows = [row for line in live for row in chopped(_untabbed(line), self.width)]
        below = [_row(row) for row in rows[-self._most_rows :]]
        text = self._changes([_row(line) for line in final], below)
        if text:
            self._write(text if "\n" not in text and "\x1b[J" not in text else text.join(_SYNCHRONISED))
        self._rows = below

    def end(self) -> None:
        """Leave the rows as they are and go to a new line, unless the cursor is at the start of one."""
        if self._rows:
            self._write("\n")
        self._rows = []

    def _changes(self, final: list[Row], live: list[Row]) -> str:
        """Return the text that turns the present rows into ``final`` and ``live``."""
        new, old = [*final, *live], self._rows
        pairs = enumerate(zip(old, new, strict=False))
        same = next((at for at, (one, two) in pairs if one != two), min(len(old), len(new)))
        if same == len(new) and same < len(old) and live:
            same -= 1  # the cursor belongs behind a row that stays: write that row once more
        text, start = "", same
        if same < len(old):
            last = same == len(old) - 1 and same < len(new)
            if last and (rest := _addition(old[-1], new[same])) is not None:
                text, start = self._encode(rest), same + 1
            else:
                text = _up(len(old) - 1 - same) + "\r\x1b[J"
        lines = [self._encode(row) for row in new[start:]]
        if lines and start > 0 and (start > same or same == len(old)):
            text += "\n"
        ended = bool(new) and not live and not (same == len(new) < len(old))
        return text + "\n".join(lines) + ("\n" if ended else "")

    def _encode(self, row: Row) -> str:
        if self._colours is None:
            return "".join(style.without_color.render(text) for text, style in row)
        return "".join(style.render(text, color_system=self._colours) for text, style in row)


def _up(rows: int) -> str:
    return f"\x1b[{rows}A" if rows else ""


def _cells(row: Row) -> int:
    return sum(cells(text) for text, _ in row)


def _untabbed(line: Text) -> Text:
    if "\t" in line.plain:
        line = line.copy()
        line.expand_tabs(_TAB_CELLS)
    return line


def _row(line: Text) -> Row:
    """Return the runs of characters with one style."""
    plain, cuts = line.plain, {0, len(line.plain)}
    for span in line.spans:
        cuts |= {span.start, span.end}
    marks = sorted(cut for cut in cuts if 0 <= cut <= len(plain))
    row: Row = []
    for start, end in pairwise(marks):
        inside = [one.style for one in line.spans if one.start <= start < one.end]
        style = Style.combine([_style(one) for one in (line.style, *inside)])
        if row and row[-1][1] == style:
            row[-1] = (row[-1][0] + plain[start:end], style)
        else:
            row.append((plain[start:end], style))
    return row


def _style(style: str | Style) -> Style:
    return style if isinstance(style, Style) else Style.parse(style)


def _addition(old: Row, new: Row) -> Row | None:
    """Return the runs that follow ``old`` in ``new``; None where they do not simply follow."""
    rest = list(new)
    for text, style in old:
        if not rest or not text.isascii():
            return None
        head, head_style = rest.pop(0)
        if style != head_style or not head.startswith(text):
            return None
        if len(head) > len(text):
            rest.insert(0, (head[len(text) :], style))
    return rest if old and all(text.isascii() for text, _ in rest) else None
