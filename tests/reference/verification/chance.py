"""Where the rules get their randomness: an argument, so that a test can try every outcome."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


class Chance:
    """Independent decisions by NumPy's default generator, seeded with one number or several."""

    def __init__(self, *seed: int) -> None:
        self._generator = np.random.default_rng(seed)

    def accept(self, probability: float) -> bool:
        """True with this probability; certain at 1 and above, impossible at 0 and below."""
        return bool(self._generator.random() < probability)

    def pick(self, distribution: NDArray[np.float64]) -> int:
        """An index, distributed by ``distribution`` f64[V], which sums to 1."""
        # Inversion over tokens with mass: one without any is never picked, however the sum is rounded.
        support = np.flatnonzero(distribution)
        heights = np.cumsum(distribution[support])
        height = self._generator.random() * heights[-1]
        return int(support[min(int(np.searchsorted(heights, height, side="right")), support.size - 1)])
