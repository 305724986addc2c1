"""The head's results: from whole logits rows, for backends that have no fused head, and what they must be."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from edgedec.core.errors import BadFileError
from edgedec.core.types import HeadRows


def head_rows(logits: NDArray[np.float32], k: int, *, full: bool, temperature: float = 1.0) -> HeadRows:
    """Head results of ``logits`` f32[R,V]: the ``k`` best, logsumexp and entropy, computed in float64."""
    vocabulary = logits.shape[1]
    ids = np.lexsort((np.broadcast_to(np.arange(vocabulary), logits.shape), -logits))[:, : min(k, vocabulary)]
    exact = logits.astype(np.float64) / temperature
    highest = exact.max(axis=1, keepdims=True)
    weights = np.exp(exact - highest)
    total = weights.sum(axis=1, keepdims=True)
    probabilities = weights / total
    logsumexp = highest + np.log(total)
    # H = logsumexp - E[logit]; a logit of -inf has probability 0 and adds nothing.
    mean = (probabilities * np.where(probabilities > 0, exact, 0.0)).sum(axis=1)
    return HeadRows(
        np.take_along_axis(logits, ids, axis=1),
        ids.astype(np.int32),
        logsumexp[:, 0].astype(np.float32),
        (logsumexp[:, 0] - mean).astype(np.float32),
        logits if full else None,
        temperature,
    )


def check_finite(logsumexp: NDArray[np.float32]) -> None:
    """Raises BadFileError when logits are not numbers: nothing can be drawn from them."""
    if not np.isfinite(logsumexp).all():
        raise BadFileError(
            "the model computes values that are not numbers: its weights are damaged",
            hint="pull or export the model again",
        )
