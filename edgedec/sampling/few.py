"""Drawing from the head's list, number by number: mostly it suffices, and few of its tokens survive.

A pass reads all weights, so that afterwards nothing of a draw is in any cache. What it costs then is how much
code and data it touches, and a hundred calls of NumPy touch more than loops over a few numbers do. These come
from the same operations in the same order as those of the arrays in ``warpers`` and ``draw``, and so are the
same; only that loops stop as soon as the rest cannot matter.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable
from functools import reduce
from itertools import takewhile

import numpy as np

from edgedec.sampling import noise
from edgedec.sampling.candidates import Row
from edgedec.sampling.params import SamplingParams
from edgedec.sampling.portable import exp_one

_FEW = 16
"""Up to so many tokens get their noise one by one; arrays are quicker for more."""


def draw(row: Row, params: SamplingParams, position: int) -> int | None:
    """The token for ``position``, or None when the head's list is too short to tell.

    For settings that leave part of the vocabulary out, or are greedy.
    """
    values, ids = row.listed()
    if not values or params.greedy:
        return ids[0] if ids else None
    weights = surviving(values, row, params)
    return None if weights is None else _first(weights, ids[: len(weights)], params.seed, position)


def surviving(values: list[float], row: Row, params: SamplingParams) -> list[float] | None:
    """Weights exp((logit - highest) / T) of the tokens that every warper leaves, best first."""
    filtered = bool(params.top_n_sigma or params.top_k)
    if filtered:
        values = _filtered(values, row, params)
        if not values:
            return None
    highest, temperature = values[0], params.temperature
    weights: Iterable[float] = (exp_one((value - highest) / temperature) for value in values)
    enough = math.inf
    if params.top_p < 1.0:
        if filtered:
            weights = list(weights)
        # Not sum(): it compensates from Python 3.12 on.
        total = reduce(operator.add, weights) if filtered else row.total(highest)
        if total is None or math.isnan(total):
            return None
        enough = params.top_p * total
    kept, sure = _nucleus(weights, enough, params.min_p)
    return kept if sure or filtered or row.complete else None


def _filtered(values: list[float], row: Row, params: SamplingParams) -> list[float]:
    """What top-n-sigma and top-k leave; nothing when the list is too short to tell."""
    if params.top_n_sigma:
        cut = row.sigma_cut()
        if cut is None:
            return []
        above = list(takewhile(lambda value: not value < cut, values))
        if len(above) == len(values) and not row.complete:
            return []
        values = above
    elif params.top_k > len(values) and not row.complete:
        return []
    return values[: params.top_k or None]


def _nucleus(weights: Iterable[float], enough: float, min_p: float) -> tuple[list[float], bool]:
    """What top-p and min-p leave, and whether that is sure: not when the list ends first.

    A weight below ``min_p`` ends what is left wherever top-p would end it.
    """
    kept: list[float] = []
    mass = 0.0
    for weight in weights:
        if weight < min_p:
            return kept, True
        kept.append(weight)
        mass += weight
        if mass >= enough:
            return kept, True
    return kept, False


def _first(weights: list[float], ids: list[int], seed: int, position: int) -> int:
    """argmin of noise / weight (the lowest id on a tie)."""
    if len(weights) == 1:
        return ids[0]
    if len(weights) > _FEW:
        noises = noise.exponential(seed, position, np.array(ids)).tolist()
    else:
        noises = noise.exponentials(seed, position, ids)
    return min(zip(map(operator.truediv, noises, weights), ids, strict=True))[1]
