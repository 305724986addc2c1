"""Where the classical rules get their randomness: an argument, so that a test can try every outcome."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray


class Chance(Protocol):
    """Independent random decisions."""

    def accept(self, probability: float) -> bool:
        """True with this probability; certain at 1 and above, impossible at 0 and below."""
        ...

    def pick(self, law: NDArray[np.float64]) -> int:
        """An index, distributed by ``law`` f64[V], which sums to 1."""
        ...


class SeededChance:
    """Decisions by NumPy's default generator, seeded with one number or several."""

    def __init__(self, *seed: int) -> None:
        self._generator = np.random.default_rng(seed)

    def accept(self, probability: float) -> bool:
        return bool(self._generator.random() < probability)

    def pick(self, law: NDArray[np.float64]) -> int:
        # Inversion over tokens with mass: one without any is never picked, however the sum is rounded.
        support = np.flatnonzero(law)
        heights = np.cumsum(law[support])
        height = self._generator.random() * heights[-1]
        return int(support[min(int(np.searchsorted(heights, height, side="right")), support.size - 1)])
