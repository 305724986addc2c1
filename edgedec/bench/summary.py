"""What many measurements of one thing come to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class Spread:
    """Median with the lower and upper quartile, which a few disturbed measurements do not move."""

    median: float
    low: float
    high: float

    def as_json(self) -> dict[str, float]:
        return {"median": rounded(self.median), "low": rounded(self.low), "high": rounded(self.high)}


def spread(values: Iterable[float]) -> Spread:
    """Of at least one value."""
    low, median, high = np.percentile(list(values), [25, 50, 75])
    return Spread(float(median), float(low), float(high))


def rounded(value: float) -> float:
    """To six significant digits: more is noise, and fewer could matter."""
    return float(f"{value:.6g}")
