"""The head's results: from whole logits rows, for backends that have no fused head; and checks of them."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from edgedec.core.errors import BadFileError
from edgedec.core.rows import HeadRows, Keep


def trimmed_rows(
    logits: NDArray[np.float32], k: int, keep: Keep, *, full: bool, temperature: float = 1.0
) -> HeadRows:
    """``head_rows`` over the ids ``keep`` only; see ``HeadRows``."""
    found = head_rows(logits[:, keep], k, full=False, temperature=temperature)
    count, missing = len(logits), min(k, logits.shape[1]) - found.ids.shape[1]
    masked = np.full_like(logits, -np.inf)
    masked[:, keep] = logits[:, keep]
    return HeadRows(
        np.hstack([found.values, np.full((count, missing), -np.inf, np.float32)]),
        np.hstack([keep[found.ids].astype(np.int32), np.full((count, missing), -1, np.int32)]),
        found.logsumexp,
        found.entropy,
        masked if full else None,
        temperature,
    )


def head_rows(logits: NDArray[np.float32], k: int, *, full: bool, temperature: float = 1.0) -> HeadRows:
    """Head results of ``logits`` f32[R,V]: the ``k`` best, logsumexp and entropy, computed in float64.

    Raises BadFileError when a row holds NaN, or nothing but -inf.
    """
    exact = logits.astype(np.float64) / temperature
    with np.errstate(invalid="ignore"):  # inf - inf: refused two lines below
        highest = exact.max(axis=1, initial=-np.inf, keepdims=True)
        weights = np.exp(exact - highest)
    total = weights.sum(axis=1, keepdims=True)
    logsumexp = (highest + np.log(total))[:, 0]
    check_finite(logsumexp)
    # H = logsumexp - E[logit]; a logit of -inf has probability 0 and adds nothing.
    mean = (weights * np.where(weights > 0, exact, 0.0)).sum(axis=1) / total[:, 0]
    ids = np.array([_best(row, min(k, row.size)) for row in logits], dtype=np.int32)
    ids = ids.reshape(len(logits), min(k, logits.shape[1]))
    return HeadRows(
        np.take_along_axis(logits, ids, axis=1),
        ids,
        logsumexp.astype(np.float32),
        (logsumexp - mean).astype(np.float32),
        logits if full else None,
        temperature,
    )


def _best(row: NDArray[np.float32], k: int) -> NDArray[np.intp]:
    """Ids of the ``k`` largest, best first, equal ones by id; without sorting a whole vocabulary."""
    least = np.partition(row, row.size - k)[row.size - k]
    above, equal = np.flatnonzero(row > least), np.flatnonzero(row == least)
    chosen = np.concatenate([above, equal[: k - above.size]])
    return chosen[np.lexsort((chosen, -row[chosen]))]


def check_finite(logsumexp: NDArray[np.float32]) -> None:
    """Raises BadFileError when logits are not numbers: nothing can be drawn from them."""
    # A few plain numbers: calling NumPy would take longer than looking at them.
    if not all(map(math.isfinite, logsumexp.tolist())):
        raise BadFileError(
            "the model computes values that are not numbers: its weights are damaged",
            hint="pull or export the model again",
        )
