"""The decision of a verification, and the distributions that it is made from."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgedec.core.tree import Laws

__all__ = ["F64", "Laws", "Verdict", "normalised", "residual"]

F64 = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Verdict:
    """``path``: accepted nodes from the root down. ``tokens``: theirs, and the one the target adds itself."""

    path: tuple[int, ...]
    tokens: tuple[int, ...]

    def until(self, stop_ids: Collection[int], most: int) -> Verdict:
        """Cut behind the first token that is in ``stop_ids``, and to at most ``most`` tokens."""
        ends = (at for at, token in enumerate(self.tokens, 1) if token in stop_ids)
        count = min(next(ends, most), most)
        return self if count >= len(self.tokens) else Verdict(self.path[:count], self.tokens[:count])


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
