"""Lines, tables and charts of a part of a report, free of any markup."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from statistics import median
from typing import Literal

from edgedec.bench.harness.pairing import median_interval
from edgedec.core.quick_dataclass import dataclass
from edgedec.core.units import size

Better = Literal["more", "less", ""]
"""Which of two values of a figure is the better one; "": neither."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One number of a part, for comparisons. ``short``: its name in the summary, if it has a place there.

    The unit "B" is worded as kB, MB and so on, the unit "share" (of 1) as percent. ``interval``: bounds that
    the true value lies between with 95 % probability; None for a count without an error. ``timed``: other
    load on the machine changes it.
    """

    name: str
    value: float
    unit: str = ""
    better: Better = ""
    short: str = ""
    interval: tuple[float, float] | None = None
    timed: bool = False

    @classmethod
    def median(
        cls,
        name: str,
        runs: Sequence[float],
        unit: str,
        better: Better,
        *,
        short: str = "",
        timed: bool = False,
    ) -> Figure:
        """Return the median of at least one run, with its interval."""
        return cls(name, median(runs), unit, better, short, median_interval(runs), timed)

    @classmethod
    def resident(cls, name: str, nbytes: float, *, short: str = "") -> Figure:
        """Return a size of which a part is measured: another start of a process may differ by 2 %."""
        return cls(name, nbytes, "B", "less", short, (0.98 * nbytes, 1.02 * nbytes))

    def worded(self) -> str:
        """Return the value with its unit, and with its interval where it was measured several times."""
        shown = self._with_unit(self.value)
        if self.interval is None or self.unit == "B":
            return shown
        low, high = (self._with_unit(end).removesuffix(f" {self.unit}") for end in self.interval)
        return f"{shown} ({low} to {high})"

    def _with_unit(self, value: float) -> str:
        if self.unit == "share":
            return percent(value)
        return size(value) if self.unit == "B" else f"{number(value)} {self.unit}".strip()


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
