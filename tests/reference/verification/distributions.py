"""The distributions that the rules compare."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]
Distributions = Callable[[int], F64]
"""The distribution f64[V] after a node of a draft tree (-1: after the last committed token), warped."""


def normalised(weights: F64) -> F64 | None:
    """``weights`` (>= 0) as a distribution, or None if there is nothing in them but rounding."""
    total = float(weights.sum())
    return weights / total if total > 1e-12 else None


def residual(p: F64, q: F64) -> F64:
    """Distribution after rejecting a draft: max(p - q, 0), normalised (Leviathan et al. 2023).

    Where rounding alone made a rejection possible (p = q), that is p itself: never a division by nearly
    nothing.
    """
    left = normalised(np.maximum(p - q, 0.0))
    return p if left is None else left
