"""A trained exit: a low-rank correction of the rows after a layer, which the model's norm and head then read.

It computes n + U (D n), where n is a row divided by its root mean square. The scale of a row does not matter,
because the norm of the model follows. ``training.exit_fit`` makes the two matrices.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from edgedec.core.rows import FloatArray

_LEAST = 1e-6


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class ExitAdapter:
    """The correction after ``exit`` layers: ``down`` is D, f32[rank, hidden size], ``up`` U, f32[hidden size,
    rank]. An instance is the ``change`` of a ``Bypass``.
    """

    exit: int
    down: FloatArray
    up: FloatArray

    def __call__(self, rows: FloatArray) -> FloatArray:
        """Return the corrected rows, f32[T, hidden size]."""
        scaled = normalised(rows)
        return np.asarray(scaled + (scaled @ self.down.T) @ self.up.T, dtype=np.float32)

    @property
    def nbytes(self) -> int:
        """Bytes of both matrices."""
        return self.down.nbytes + self.up.nbytes


def normalised(rows: FloatArray) -> FloatArray:
    """Return ``rows``, f32[T, hidden size], each divided by its root mean square."""
    scale = np.sqrt(np.mean(np.square(rows, dtype=np.float64), axis=1, keepdims=True)) + _LEAST
    return np.asarray(rows / scale, dtype=np.float32)
