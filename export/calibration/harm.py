"""Estimates how much each format of each matrix would change what a model predicts.

The estimate is the mean KL divergence of a token's prediction, to second order: half of the mean of
(G . E)^2. E are the errors of the weights. G are the derivatives of a random mix of logits, whose squares
have the second derivative of the divergence for a mean. Errors of rounding have signs of their own, so that
the sum of G^2 E^2 is taken.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
from gguf import quants
from gguf.constants import GGMLQuantizationType
from numpy.typing import NDArray

from edgedec.core.progress import Steps
from edgedec.export.calibration.choice import LADDER
from edgedec.export.calibration.evaluate import F32, Floats
from edgedec.export.calibration.gradients import Backward, Slopes
from edgedec.export.calibration.search import quantise
from edgedec.export.model import ExportModel

WINDOW, WINDOWS = 64, 8
"""Tokens of a window of text, and windows that are read."""
_SEED = 1
_BLOCK = 64
"""Rows of logits at a time."""


def harms(
    model: ExportModel,
    floats: Floats,
    windows: Sequence[Sequence[int]],
    importance: Mapping[str, NDArray[np.float64]],
    progress: Steps,
) -> dict[str, dict[str, float]]:
    """Return nats a token for each format of ``LADDER``, by the name of a tensor.

    ``importance``: see ``quantise``; other arguments are those of ``Backward``. Values have four digits, so
    that the last bits of a sum change no choice. Raises UnsupportedError for ops that it does not know, and
    the errors of ``floats``.
    """
    found: dict[str, dict[str, float]] = {}
    tokens = sum(map(len, windows))

    def each(slopes: Slopes) -> None:
        name = slopes.weight.tensor.name
        sums = found.setdefault(name, dict.fromkeys(LADDER, 0.0))
        for format in LADDER:
            errors = _rounded(slopes.rows, format, importance.get(name)) - slopes.rows
            sums[format] += slopes.share * float(np.vdot(slopes.squares, errors * errors)) / (2 * tokens)

    Backward(model, floats, windows, partial(_drawn, random=np.random.default_rng(_SEED)), each).go(progress)
    return {
        name: {format: float(f"{one:.3e}") for format, one in sums.items()} for name, sums in found.items()
    }


def _rounded(rows: F32, format: str, importance: NDArray[np.float64] | None) -> F32:
    blocks = quantise(rows, format, importance)
    found: F32 = quants.dequantize(blocks, GGMLQuantizationType[format.upper()])
    return found


def _drawn(logits: F32, random: np.random.Generator) -> F32:
    """Return random derivatives g of logits, in their place; g g' has the mean diag(p) - p p'.

    That is the second derivative of the KL divergence by the logits.
    """
    for start in range(0, len(logits), _BLOCK):
        z = logits[start : start + _BLOCK]
        p = np.exp(z - z.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        mixed = np.sqrt(p) * random.standard_normal(p.shape, dtype=np.float32)
        z[:] = mixed - p * mixed.sum(axis=1, keepdims=True)
    return logits
