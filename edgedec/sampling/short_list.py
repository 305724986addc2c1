"""Drawing from the head's list, number by number: mostly it suffices, and few of its tokens survive.

A pass reads all weights, so that afterwards nothing of a draw is in any cache. Its time is then that of
reading code and data, and a hundred calls of NumPy touch more than loops over a few numbers do. These come
from the same operations in the same order as those of the arrays in ``warpers`` and ``draw``, and so are the
same; only that loops stop as soon as the rest cannot matter.
"""

from __future__ import annotations

import math
from itertools import takewhile

from edgedec.sampling import noise
from edgedec.sampling.candidates import Row
from edgedec.sampling.params import DrawParams
from edgedec.sampling.portable import exp_one


def draw(row: Row, params: DrawParams, position: int) -> int | None:
    """The token for ``position``, or None when the head's list is too short to tell.

    For settings that leave part of the vocabulary out, or are greedy.
    """
    values, ids = row.listed()
    if not values or params.greedy:
        return ids[0] if ids else None
    weights = surviving(values, row, params)
    return None if weights is None else _first(weights, ids[: len(weights)], params.seed, position)


def surviving(values: list[float], row: Row, params: DrawParams) -> list[float] | None:
    """Weights exp((logit - highest) / T) of the tokens that every warper leaves, best first."""
    filtered = bool(params.top_n_sigma or params.top_k)
    if filtered:
        values = _filtered(values, row, params)
        if not values:
            return None
    highest, temperature = values[0], row.temperature
    if (bounds := _enough(values, filtered, row, params)) is None:
        return None
    enough, surely = bounds
    kept: list[float] = []
    mass, min_p = 0.0, params.min_p
    whole = filtered or row.complete
    # Weights only fall: if all that are left, were they as large as this one, do not make up enough, the
    # list is too short. The margin covers rounding.
    hopeless = 0.0 if whole or min_p else enough * (1.0 - 1e-9)
    for left, value in zip(range(len(values) - 1, -1, -1), values, strict=True):
        weight = exp_one((value - highest) / temperature)
        if weight < min_p:  # wherever top-p would end
            return kept
        kept.append(weight)
        mass += weight
        if enough <= mass < surely:  # within the error of the sum: only the whole row can tell
            total = row.total(highest)
            assert total is not None
            enough = surely = params.top_p * total
        if mass >= enough:
            return kept
        if mass + left * weight < hopeless:
            return None
    return kept if whole else None


def _enough(values: list[float], filtered: bool, row: Row, params: DrawParams) -> tuple[float, float] | None:
    """Bounds of the mass that top-p keeps, of all that ``values`` stand for; None when it cannot be had."""
    if params.top_p == 1.0:
        return math.inf, math.inf
    if filtered:
        mass = 0.0  # not sum(), which compensates from Python 3.12 on
        for value in values:
            mass += exp_one((value - values[0]) / row.temperature)
        return params.top_p * mass, params.top_p * mass
    bounds = row.total_bounds(values[0])
    if bounds is None or math.isnan(bounds[1]):
        return None
    return params.top_p * bounds[0], params.top_p * bounds[1]


def _filtered(values: list[float], row: Row, params: DrawParams) -> list[float]:
    """Values that top-n-sigma and top-k leave; nothing when the list is too short to tell."""
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


def _first(weights: list[float], ids: list[int], seed: int, position: int) -> int:
    """argmin of noise / weight (the lowest id on a tie)."""
    if len(weights) == 1:
        return ids[0]
    least, token = math.inf, ids[0]
    for e, weight, v in zip(noise.exponentials(seed, position, ids), weights, ids, strict=True):
        time = e / weight
        if time < least or (time == least and v < token):
            least, token = time, v
    return token
