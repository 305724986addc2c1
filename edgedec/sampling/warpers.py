"""The warpers: pure functions that say which part of a sorted list of logits stays.

Canonical order everywhere: value descending, id ascending among equal values. The steps run as listed in
``DrawParams``. Each keeps a prefix of that order, so it returns only how long the prefix is; a list that
is itself just a prefix of the vocabulary (``complete=False``) may be too short to tell, and then the answer
is None. All arithmetic is float64 in a fixed order, so a cut does not depend on how much of the vocabulary
was at hand when it was decided.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]
Ids = NDArray[np.int64]


def penalise(logits: F64, penalty: float) -> F64:
    """Repetition penalty (Keskar et al. 2019, CTRL) of logits whose ids have occurred.

    A positive logit is divided by the penalty, a negative one multiplied: with ``penalty`` > 1 both fall.
    """
    return np.where(logits > 0.0, logits / penalty, logits * penalty)


def penalise_one(logit: float, penalty: float) -> float:
    """``penalise`` for one number: the same bits."""
    return logit / penalty if logit > 0.0 else logit * penalty


def canonical_order(values: F64, ids: Ids) -> NDArray[np.intp]:
    """Indices that sort by value descending, then id ascending."""
    return np.lexsort((ids, -values))


def sigma_cut(row: F64, n: float) -> float:
    """Lowest logit kept by top-n-sigma (Tang et al. 2024): max - n * std over the whole vocabulary.

    ``row`` holds all logits in id order; excluded ones (-inf) do not count.
    """
    finite = row[np.isfinite(row)]
    variance = total_of(np.square(finite - total_of(finite) / finite.size)) / finite.size
    return float(finite.max() - n * np.sqrt(variance))


def top_k_count(values: F64, k: int, *, complete: bool) -> int | None:
    """Length of the prefix kept by top-k: ``k``, or all there is."""
    if k <= values.size:
        return k
    return values.size if complete else None


def at_least_count(values: F64, cut: float, *, complete: bool) -> int | None:
    """Length of the prefix with value >= ``cut``."""
    below = values < cut
    first = int(below.argmax())
    if below[first]:
        return first
    return values.size if complete else None


def top_p_count(weights: F64, total: float, p: float, *, complete: bool) -> int | None:
    """Length of the shortest prefix with weight >= ``p * total`` (Holtzman et al. 2020), at least one.

    ``weights`` are exp(x - max x), sorted; ``total`` is their sum over all that survived before.
    """
    reached = np.add.accumulate(weights) >= p * total
    first = int(reached.argmax())
    if reached[first]:
        return first + 1
    return weights.size if complete else None


def total_of(x: F64) -> float:
    """Sum in the order given, strictly one after the other (np.sum's blocking may differ between builds)."""
    return float(np.add.accumulate(x)[-1])
