"""Affine integers: the form of numbers at the edges of an NPU's graph."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgedec.core.quick_dataclass import dataclass
from edgedec.core.rows import FloatArray


@dataclass(frozen=True, slots=True)
class Affine:
    """A number r is stored as the integer r / scale + zero, unsigned, of 8 or 16 ``bits``."""

    bits: int
    scale: float
    zero: int

    @property
    def dtype(self) -> Any:
        """The NumPy type of the integers."""
        return np.uint16 if self.bits == 16 else np.uint8

    def quantised(self, values: FloatArray) -> NDArray[Any]:
        """Return the nearest integers."""
        whole = np.rint(values / np.float32(self.scale)) + self.zero
        found: NDArray[Any] = np.clip(whole, 0, 2**self.bits - 1).astype(self.dtype)
        return found

    def floats(self, stored: NDArray[Any]) -> FloatArray:
        """Return the numbers of stored integers."""
        return (stored.astype(np.float32) - np.float32(self.zero)) * np.float32(self.scale)
