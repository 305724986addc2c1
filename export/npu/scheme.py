"""Makes number formats for an NPU out of measured ranges."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto

from edgedec.bundle.affine import Affine

F32 = NDArray[np.float32]
MARGIN = 0.05
"""Share of a measured range that is added at each end: other texts have larger values."""
_LEAST_SCALE = 1e-10
TYPES = {16: TensorProto.UINT16, 8: TensorProto.UINT8}
"""Bits -> element type of ONNX."""
UNIT = {16: Affine(16, 2.0**-16, 0), 8: Affine(8, 2.0**-8, 0)}
"""Formats of numbers from 0 to 1."""


def affine_over(low: float, high: float, bits: int, margin: float = MARGIN) -> Affine:
    """Return the format that holds the range, zero included, widened by ``margin`` at each end."""
    low, high = min(low, 0.0), max(high, 0.0)
    width = (high - low) or 1.0
    low, high = low - margin * width, high + margin * width
    scale = float(np.float32(max((high - low) / (2**bits - 1), _LEAST_SCALE)))
    return Affine(bits, scale, int(np.clip(round(-low / scale), 0, 2**bits - 1)))


def quantised_rows(rows: F32) -> tuple[NDArray[np.int8], F32]:
    """Return integers i8[rows, K] from -127 to 127, and a scale for each row."""
    scale = np.maximum(np.abs(rows).max(axis=1), np.float32(1e-12)) / np.float32(127)
    return np.rint(rows / scale[:, None]).astype(np.int8), scale.astype(np.float32)
