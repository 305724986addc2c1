"""Next tokens of a draft model, best first, under the noise that the target will use.

The target's token at position t is the argmin of E(seed, t, v) / p(v) over the tokens that its warpers leave
(edgedec.sampling.noise). A drafter that looks at its own q under the same noise and the same warpers mostly
finds the same token, also at temperatures where two independent draws would rarely agree. Nothing here has
to be exact: the head's few best logits stand for the whole vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from edgedec.core.rows import HeadRows
from edgedec.sampling import DrawParams, noise, portable, warpers
from edgedec.sampling.adjustment import Adjustment
from edgedec.sampling.history import History
from edgedec.sampling.narrowing import Shares, cuts
from edgedec.sampling.temperature import temperature_of

F64 = NDArray[np.float64]
Ids = NDArray[np.int64]

ToTargetIds = Callable[[Ids], Ids]
"""The target's ids i64[n] of the drafter's ids i64[n]; below 0 where the target has no such token."""

FEW = 4
"""Choices looked at per position."""
_FEW_KEYED = 8
"""Most tokens whose noise is computed one by one."""
_LEAST_NATS = -700.0
"""Logarithm below which a probability is 0: ``portable.exp`` does not reach lower."""


def choices(
    rows: HeadRows,
    row: int,
    params: DrawParams,
    position: int,
    history: History,
    to_target: ToTargetIds,
) -> list[tuple[int, float]]:
    """Up to ``FEW`` of the drafter's (id, probability), for absolute position ``position`` of the target.

    Greedy: the probabilities of the model at temperature 1, its confidence. Sampled: with temperature
    T they are the softmax of logits + T * G, G the noise of that position: its confidence in the token that
    it would draw here. This becomes the greedy case as T falls.
    """
    if params.greedy and not params.adjusts:
        return surest(rows, row)
    count = int(np.count_nonzero(rows.values[row] > -np.inf))  # fewer than k of a trimmed vocabulary
    values, ids = rows.values[row, :count].astype(np.float64), rows.ids[row, :count].astype(np.int64)
    if params.adjusts:
        values, ids = _adjusted(values, ids, Adjustment(params, history), to_target)
    if not ids.size:
        return []
    if params.greedy:
        return _surest(values[:FEW].tolist(), ids[:FEW].tolist(), rows, row)
    temperature = temperature_of(params, rows, row)
    return _keyed(values, ids, _Drawing(params, temperature, position), to_target)


def surest(rows: HeadRows, row: int) -> list[tuple[int, float]]:
    """Up to ``FEW`` of the drafter's (id, probability), greedily, where nothing adjusts logits."""
    return _surest(rows.values[row, :FEW].tolist(), rows.ids[row, :FEW].tolist(), rows, row)


def _surest(values: list[float], ids: list[int], rows: HeadRows, row: int) -> list[tuple[int, float]]:
    total = rows.logsumexp.item(row)
    return [(token, _prob(value - total)) for token, value in zip(ids, values, strict=True) if token >= 0]


def _prob(nats: float) -> float:
    return min(portable.exp_one(nats), 1.0) if nats > _LEAST_NATS else 0.0


def _adjusted(values: F64, ids: Ids, adjustment: Adjustment, to_target: ToTargetIds) -> tuple[F64, Ids]:
    """Apply penalties, and the bias of the target's ids; leave out what it bans."""
    tokens = ids.tolist()
    touched: Sequence[int]
    if adjustment.biased:
        theirs, touched = to_target(ids).tolist(), range(len(tokens))
    else:
        theirs, found = tokens, adjustment.touched_of(tokens)
        touched = [place for place, token in enumerate(tokens) if token in found]
    for place in touched:
        values[place] = adjustment.one(values.item(place), tokens[place], theirs[place])
    if not touched:
        return values, ids
    order = warpers.canonical_order(values, ids)[: np.count_nonzero(values > -np.inf)]
    return values[order], ids[order]


class _Drawing(NamedTuple):
    params: DrawParams
    temperature: float
    position: int


def _keyed(values: F64, ids: Ids, how: _Drawing, to_target: ToTargetIds) -> list[tuple[int, float]]:
    params, most = how.params, values.size
    most = min(params.top_k, most) if params.top_k else most
    scaled = (values[:most] - values[0]) / how.temperature
    weights = portable.exp(scaled)
    count = _survivors(weights, params)
    scaled, weights, ids = scaled[:count], weights[:count], ids[:count]
    for cut in cuts(params, None):
        places = cut.step(Shares(scaled - scaled[0], complete=True), cut.value)
        assert places is not None, "it is complete"
        scaled, weights, ids = scaled[places], weights[places], ids[places]
    theirs = to_target(ids)
    if theirs.min() < 0:
        known = theirs >= 0
        weights, ids, theirs = weights[known], ids[known], theirs[known]
    if ids.size > _FEW_KEYED:
        return _raced(weights, ids, theirs, how)
    return _raced_few(weights.tolist(), ids.tolist(), theirs.tolist(), how)


def _raced(weights: F64, ids: Ids, theirs: Ids, how: _Drawing) -> list[tuple[int, float]]:
    times = noise.exponential(how.params.seed, how.position, theirs) / weights
    order = np.lexsort((theirs, times))
    surety = portable.exp(how.temperature * portable.log(times[order[0]] / times))
    probs = surety[order[:FEW]] / warpers.total_of(surety)
    return list(zip(ids[order[:FEW]].tolist(), probs.tolist(), strict=True))


def _raced_few(
    weights: list[float], ids: list[int], theirs: list[int], how: _Drawing
) -> list[tuple[int, float]]:
    """``_raced`` of so few that NumPy's calls would take longer than the arithmetic: the same bits."""
    if len(ids) < 2:  # nothing to race against
        return [(token, 1.0) for token in ids]
    noises = noise.exponentials(how.params.seed, how.position, theirs)
    times = [one / weight for one, weight in zip(noises, weights, strict=True)]
    order = sorted(range(len(times)), key=lambda at: (times[at], theirs[at]))
    first = times[order[0]]
    surety = [portable.exp_one(how.temperature * portable.log_one(first / time)) for time in times]
    total = 0.0
    for one in surety:
        total += one
    return [(ids[at], surety[at] / total) for at in order[:FEW]]


def _survivors(weights: F64, params: DrawParams) -> int:
    """Count those of the top-k that the warpers before ``sampling.narrowing`` leave.

    Top-n-sigma would need the whole row and is left out, and so is mirostat, whose state is the target's.
    """
    count = weights.size
    if params.top_p < 1.0:
        total = warpers.total_of(weights)
        count = warpers.top_p_count(weights, total, params.top_p, complete=True) or count
    return warpers.at_least_count(weights[:count], params.min_p, complete=True) or 1
