"""Fits the correction of an exit in closed form: reduced-rank ridge regression onto the last layer's rows.

Rows after an early layer are mapped to those after the last one, both divided by their root mean square. Only
sums of products are kept, so any number of tokens takes the memory of two matrices. Errors count as the
model's head sees them: directions that change no logit are left alone. There is no chance in it: the same
replies give the same matrices.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from edgedec.core.rows import FloatArray
from edgedec.draft.exit_adapter import ExitAdapter, normalised

F64 = NDArray[np.float64]

RIDGES = (0.001, 0.01, 0.1)
"""Strengths to choose among: shares of the mean square of a row's element."""
_LEAST = 1e-9


class ExitSums:
    """Sums over rows x after an exit and y after all layers, both normalised: x xᵀ, and (y - x) xᵀ."""

    def __init__(self, width: int) -> None:
        """``width``: elements of a row."""
        self.count = 0
        self._xx = np.zeros((width, width))
        self._dx = np.zeros((width, width))

    def add(self, early: FloatArray, late: FloatArray) -> None:
        """Note rows, f32[T, width], of the same tokens after the exit and after all layers."""
        x, y = normalised(early).astype(np.float64), normalised(late).astype(np.float64)
        self._xx += x.T @ x
        self._dx += (y - x).T @ x
        self.count += len(x)

    def adapter(self, exit: int, rank: int, ridge: float, metric: F64) -> ExitAdapter:
        """Return the best correction of this rank.

        ``metric``: see ``head_metric``. Raises ValueError without rows.
        """
        if not self.count:
            raise ValueError("there are no rows to fit an exit to")
        width = len(self._xx)
        xx = self._xx / self.count
        xx[np.diag_indices(width)] += ridge * np.trace(xx) / width + _LEAST
        full = np.linalg.solve(xx, self._dx.T / self.count).T
        root, back = _root(metric)
        left, _, _ = np.linalg.svd(root @ full @ _root(xx)[0])
        best = left[:, : min(rank, width)]
        down, up = best.T @ root @ full, back @ best
        return ExitAdapter(exit, down.astype(np.float32), up.astype(np.float32))


def head_metric(rows: FloatArray, gains: FloatArray) -> F64:
    """Return the matrix M for which eᵀ M e is the mean square error of logits, f64[width, width].

    ``rows``: of the head, f32[ids, width]; ``gains``: weights of the norm before it, f32[width]; e: an error
    of a normalised row.
    """
    found = np.zeros((rows.shape[1], rows.shape[1]))
    for start in range(0, len(rows), 1024):
        part = rows[start : start + 1024].astype(np.float64) * gains
        found += part.T @ part
    return found / len(rows)


def _root(matrix: F64) -> tuple[F64, F64]:
    """Return the square root of a positive matrix, and its inverse."""
    values, vectors = np.linalg.eigh(matrix)
    values = np.sqrt(np.maximum(values, _LEAST * max(float(values[-1]), _LEAST)))
    return (vectors * values) @ vectors.T, (vectors / values) @ vectors.T
