"""Lines, tables and charts of a part of a report, free of any markup."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from edgedec.core.units import size

Better = Literal["more", "less", ""]
"""Which of two values of a figure is the better one; "": neither."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One number of a part, for comparisons. ``short``: its name in the summary, if it has a place there.

    The unit "B" is worded as kB, MB and so on, the unit "share" (of 1) as percent.
    """

    name: str
    value: float
    unit: str = ""
    better: Better = ""
    short: str = ""

    def worded(self) -> str:
        """Return the value with its unit."""
        if self.unit == "share":
            return percent(self.value)
        return size(self.value) if self.unit == "B" else f"{number(self.value)} {self.unit}".strip()


@dataclass(frozen=True, slots=True)
class TableView:
    """Rows of cells; the first column names a row, the others hold numbers or short words."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Chart:
    """Lines through points (x, y) by name. ``log``: both axes double with every step.

    ``points``: names of lines that are drawn as points alone.
    """

    title: str
    x: str
    y: str
    lines: Mapping[str, Sequence[tuple[float, float]]]
    log: bool = False
    points: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class View:
    """Lines, tables, charts and small print of one part."""

    lines: tuple[str, ...] = ()
    tables: tuple[TableView, ...] = ()
    charts: tuple[Chart, ...] = ()
    notes: tuple[str, ...] = field(default=())
    """Small print: conditions, and how to read the figures."""


def number(value: float | None, digits: int = 3) -> str:
    """Return a number with ``digits`` significant digits and no exponent; "-" for None.

    >>> number(1234.5), number(0.01234), number(None)
    ('1,234', '0.0123', '-')
    """
    if value is None:
        return "-"
    if abs(value) >= 10 ** (digits - 1):
        return f"{value:,.0f}"
    shown = f"{value:.{digits}g}"
    return shown if "e" not in shown else f"{value:.6f}"


def percent(share: float | None) -> str:
    """Return a share of 1 in percent; "-" for None."""
    return "-" if share is None else f"{100 * share:.0f} %"
