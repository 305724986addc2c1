"""Next tokens of a draft model, best first, under the noise that the target will use.

The target's token at position t is the argmin of E(seed, t, v) / p(v) over the tokens that its warpers leave
(edgedec.sampling.noise). A drafter that looks at its own q under the same noise and the same warpers mostly
finds the same token, also at temperatures where two independent draws would rarely agree. Nothing here has
to be exact: the head's few best logits stand for the whole vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable
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
    count = int(np.count_nonzero(rows.values[row] > -np.inf))  # fewer than k of a trimmed vocabulary
    values, ids = rows.values[row, :count].astype(np.float64), rows.ids[row, :count].astype(np.int64)
    if params.adjusts:
        values, ids = _adjusted(values, ids, Adjustment(params, history), to_target)
    if not ids.size:
        return []
    if params.greedy:
        nats = (values[:FEW] - float(rows.logsumexp[row])).tolist()
        return [(token, _prob(one)) for token, one in zip(ids[:FEW].tolist(), nats, strict=True)]
    temperature = temperature_of(params, rows, row)
    return _keyed(values, ids, _Drawing(params, temperature, position), to_target)


def _prob(nats: float) -> float:
    return min(portable.exp_one(nats), 1.0) if nats > _LEAST_NATS else 0.0


def _adjusted(values: F64, ids: Ids, adjustment: Adjustment, to_target: ToTargetIds) -> tuple[F64, Ids]:
    """Apply penalties, and the bias of the target's ids; leave out what it bans."""
    every = zip(values.tolist(), ids.tolist(), to_target(ids).tolist(), strict=True)
    values = np.array([adjustment.one(value, token, theirs) for value, token, theirs in every])
    order = warpers.canonical_order(values, ids)[: np.count_nonzero(values > -np.inf)]
    return values[order], ids[order]


class _Drawing(NamedTuple):
    params: DrawParams
    temperature: float
    position: int


def _keyed(values: F64, ids: Ids, how: _Drawing, to_target: ToTargetIds) -> list[tuple[int, float]]:
    scaled = (values - values[0]) / how.temperature
    weights = portable.exp(scaled)
    kept = np.arange(_survivors(weights, how.params))
    for cut in cuts(how.params, None):
        places = cut.step(Shares(scaled[kept] - scaled[kept[0]], complete=True), cut.value)
        assert places is not None, "it is complete"
        kept = kept[places]
    weights, ids, theirs = weights[kept], ids[kept], to_target(ids[kept])
    known = theirs >= 0
    weights, ids, theirs = weights[known], ids[known], theirs[known]
    if not ids.size:
        return []
    times = noise.exponential(how.params.seed, how.position, theirs) / weights
    order = np.lexsort((theirs, times))
    surety = portable.exp(how.temperature * portable.log(times[order[0]] / times))
    probs = surety[order[:FEW]] / warpers.total_of(surety)
    return list(zip(ids[order[:FEW]].tolist(), probs.tolist(), strict=True))


def _survivors(weights: F64, params: DrawParams) -> int:
    """How many of the head's best the warpers leave before those of ``sampling.narrowing``.

    Top-n-sigma would need the whole row and is left out, and so is mirostat, whose state is the target's.
    """
    count = min(params.top_k, weights.size) if params.top_k else weights.size
    if params.top_p < 1.0:
        left = weights[:count]
        count = warpers.top_p_count(left, warpers.total_of(left), params.top_p, complete=True) or count
    return warpers.at_least_count(weights[:count], params.min_p, complete=True) or 1
