"""Order of turns, and statistics of paired measurements.

A machine gets warm and has other work to do. Sides are therefore measured side by side in time, and ratios
are taken between neighbouring measurements.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from math import comb, sqrt
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from edgedec.core.quick_dataclass import dataclass

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T")
_Z95 = 1.959964

SETTLE_S = 0.05
"""Pause before a side's turn, in seconds. The threads of the side before stop spinning in it."""


def settle() -> None:
    """Wait until the threads of the side before sleep."""
    time.sleep(SETTLE_S)


def rotated(sides: Sequence[T], turn: int) -> list[T]:
    """Return the sides in the order of one turn. Another side begins each time."""
    start = turn % len(sides)
    return [*sides[start:], *sides[:start]]


@dataclass(frozen=True, slots=True)
class Spread:
    """Median with the lower and upper quartile. A few disturbed measurements do not move them."""

    median: float
    low: float
    high: float

    def named(self, name: str) -> dict[str, float]:
        """Return the median as a JSON field of this name, and the quartiles beside it."""
        ends = {f"{name}_low": rounded(self.low), f"{name}_high": rounded(self.high)}
        return {name: rounded(self.median), **ends}


def spread(values: Iterable[float]) -> Spread:
    """Return median and quartiles of at least one value."""
    low, median, high = np.percentile(list(values), [25, 50, 75])
    return Spread(float(median), float(low), float(high))


def median_interval(values: Iterable[float]) -> tuple[float, float]:
    """Return the 95 % interval of the median of at least one value, by order statistics.

    It holds for any distribution. With fewer than six values it is the whole range, which is as much as they
    tell.
    """
    ordered = sorted(values)
    count, outside, tail = len(ordered), 0, 0.0
    while outside < count // 2:
        tail += comb(count, outside) / 2**count
        if 2 * tail > 0.05:
            break
        outside += 1
    outside = max(outside - 1, 0)
    return ordered[outside], ordered[count - 1 - outside]


def pair_ratios(some: Sequence[float], others: Sequence[float]) -> list[float]:
    """Divide measurements by their neighbours, pair by pair."""
    return [a / b for a, b in zip(some, others, strict=True)]


def wilson(right: int, asked: int) -> tuple[float, float]:
    """Return Wilson's (1927) 95 % interval of a share."""
    if not asked:
        return 0.0, 1.0
    share, square = right / asked, _Z95 * _Z95 / asked
    middle = (share + square / 2) / (1 + square)
    half = _Z95 * sqrt(share * (1 - share) / asked + square / (4 * asked)) / (1 + square)
    return max(middle - half, 0.0), min(middle + half, 1.0)


def rounded(value: float) -> float:
    """Round to six significant digits. More would be noise."""
    return float(f"{value:.6g}")


def rounded_or_none(value: float | None) -> float | None:
    return None if value is None else rounded(value)


def plain(given: Any) -> Any:
    """Return ``given`` for JSON: fields by their names, and numbers rounded."""
    if is_dataclass(given) and not isinstance(given, type):
        return by_field(given)
    if isinstance(given, Mapping):
        return {name: plain(one) for name, one in given.items()}
    if isinstance(given, list | tuple):
        return [plain(one) for one in given]
    return rounded(given) if isinstance(given, float) else given


def by_field(given: DataclassInstance) -> dict[str, Any]:
    """Return the fields of ``given`` by their names, for JSON."""
    return {field.name: plain(getattr(given, field.name)) for field in fields(given)}
