"""Order of turns, and statistics of paired measurements.

A machine gets warm and has other work to do. Sides are therefore measured side by side in time, and ratios
are taken between neighbouring measurements.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

T = TypeVar("T")

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

    def as_json(self) -> dict[str, float]:
        return {"median": rounded(self.median), "low": rounded(self.low), "high": rounded(self.high)}


def spread(values: Iterable[float]) -> Spread:
    """Return median and quartiles of at least one value."""
    low, median, high = np.percentile(list(values), [25, 50, 75])
    return Spread(float(median), float(low), float(high))


def pair_ratios(some: Sequence[float], others: Sequence[float]) -> list[float]:
    """Divide measurements by their neighbours, pair by pair."""
    return [a / b for a, b in zip(some, others, strict=True)]


def rounded(value: float) -> float:
    """Round to six significant digits. More would be noise."""
    return float(f"{value:.6g}")


def rounded_or_none(value: float | None) -> float | None:
    return None if value is None else rounded(value)
