"""The router of a mixture of experts in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgedec.export.calibration.recurrent import sigmoid

F32 = NDArray[np.float32]


def expert_weights(attrs: dict[str, Any], scores: F32, choice: F32 | None, factor: F32 | None = None) -> F32:
    """Return the weight of each expert for each token, f32[T, E]: 0 for those that are not chosen."""
    if attrs["gating"] == "sigmoid":
        weights = sigmoid(scores)
        order = weights if choice is None else weights + choice
    else:
        raised = np.exp(scores - scores.max(axis=1, keepdims=True))
        weights, order = raised / raised.sum(axis=1, keepdims=True), scores
    chosen = np.argsort(-order, axis=1, kind="stable")[:, : attrs["chosen"]]
    out = np.zeros_like(weights)
    np.put_along_axis(out, chosen, np.take_along_axis(weights, chosen, axis=1), axis=1)
    if attrs["normalise"]:
        out /= out.sum(axis=1, keepdims=True) + np.float32(attrs["epsilon"])
    found: F32 = out * np.float32(attrs["scale"])
    return found if factor is None else found * factor
