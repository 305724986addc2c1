"""Tables of a reply: columns where their words fit the window, else the cells of a row one by one."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from rich.text import Text

from edgedec.cli.window.cells import cells, clusters
from edgedec.cli.window.styles import Styles
from edgedec.cli.window.wrap import wrapped
from edgedec.core.quick_dataclass import dataclass

_GAP = "   "
_INDENT = "  "


@dataclass
class CellTable:
    """Its cells by row, the header first; ``right`` says which columns are aligned there."""

    rows: list[list[Text]]
    right: list[bool]


def drawn(table: CellTable, width: int, styles: Styles) -> list[Text]:
    """Return the table as lines of at most ``width`` cells, no word of them broken that fits the window."""
    header, *rows = table.rows
    for cell in header:
        cell.stylize(styles.bold)
    widths = _widths(table.rows, width - len(_GAP) * (len(header) - 1))
    if widths is None:
        return _stacked(header, rows, width)
    rule = Text(styles.dash * (sum(widths) + len(_GAP) * (len(widths) - 1)))
    lines = [_side_by_side(row, widths, table.right) for row in table.rows]
    return [*lines[0], rule, *(line for row in lines[1:] for line in row)]


def _widths(rows: Sequence[Sequence[Text]], room: int) -> list[int] | None:
    """Share ``room`` cells among the columns; None where their longest words take more."""
    columns = list(zip(*rows, strict=True))
    least = [max(max(map(_longest_word, column)), 1) for column in columns]
    wanted = [max(cells(cell.plain) for cell in column) for column in columns]
    if sum(least) > room:
        return None
    widths, left = least, room - sum(least)
    for missing, column in sorted(
        (want - have, at) for at, (want, have) in enumerate(zip(wanted, least, strict=True))
    ):
        given = min(missing, left)
        widths[column] += given
        left -= given
    return widths


def _longest_word(cell: Text) -> int:
    """Count the cells of the longest run that no line break may part; wide characters part anywhere."""
    found = 0
    for word in cell.plain.split():
        for wide, run in groupby(clusters(word), lambda one: one[1] > 1):
            sizes = [size for _, size in run]
            found = max(found, max(sizes) if wide else sum(sizes))
    return found


def _side_by_side(row: Sequence[Text], widths: Sequence[int], right: Sequence[bool]) -> list[Text]:
    texts = [[line for _, line in wrapped(cell, width)] for cell, width in zip(row, widths, strict=True)]
    lines = []
    for at in range(max(map(len, texts))):
        line = Text()
        for column, (cell, width) in enumerate(zip(texts, widths, strict=True)):
            part = cell[at] if at < len(cell) else Text()
            blank = " " * (width - cells(part.plain))
            line.append(_GAP if column else "")
            line.append_text(Text(blank) + part if right[column] else part + Text(blank))
        line.rstrip()
        lines.append(line)
    return lines


def _stacked(header: Sequence[Text], rows: Sequence[Sequence[Text]], width: int) -> list[Text]:
    """Return each row as lines of the form ``header: cell``, with a blank line between two rows."""
    lines: list[Text] = []
    for row in rows or [[Text()] * len(header)]:
        lines += [Text()] if lines else []
        for name, cell in zip(header, row, strict=True):
            if name.plain or cell.plain:
                lines += _hanging(Text.assemble(name, ": " if name.plain else "", cell), width)
    return lines


def _hanging(text: Text, width: int) -> list[Text]:
    (end, first), *more = wrapped(text, width)
    if not more:
        return [first]
    rest = text[end:] if end < len(text) else Text()
    return [first, *(Text(_INDENT) + line for _, line in wrapped(rest, max(width - len(_INDENT), 2)))]
