"""Next tokens of a draft model, best first, under the noise that the target will use.

The target's token at position t is the argmin of E(seed, t, v) / p(v) over the tokens that its warpers leave
(edgedec.sampling.noise). A drafter that looks at its own q under the same noise and the same warpers mostly
finds the same token, also at temperatures where two independent draws would rarely agree. Nothing here has
to be exact: the head's few best logits stand for the whole vocabulary. Top-n-sigma would need the whole row
and is left out, and so is mirostat, whose state is the target's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from edgedec.core.rows import HeadRows
from edgedec.draft.native import drawn
from edgedec.sampling import DrawParams, portable
from edgedec.sampling.adjustment import Adjustment
from edgedec.sampling.history import History
from edgedec.sampling.temperature import temperature_of

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
    if params.greedy and not params.adjusts:
        return surest(rows, row)
    values, ids = rows.values[row].tolist(), rows.ids[row].tolist()
    if values[-1] == -math.inf:  # fewer than k of a trimmed vocabulary
        count = values.index(-math.inf)
        values, ids = values[:count], ids[:count]
    if params.adjusts:
        values, ids = _adjusted(values, ids, Adjustment(params, history), to_target)
    if params.greedy:
        return _surest(values[:FEW], ids[:FEW], rows, row)
    place = temperature_of(params, rows, row), position
    return drawn(values, ids, params, place, to_target) if ids else []


def surest(rows: HeadRows, row: int) -> list[tuple[int, float]]:
    """Up to ``FEW`` of the drafter's (id, probability), greedily, where nothing adjusts logits."""
    return _surest(rows.values[row, :FEW].tolist(), rows.ids[row, :FEW].tolist(), rows, row)


def _surest(values: list[float], ids: list[int], rows: HeadRows, row: int) -> list[tuple[int, float]]:
    total = rows.logsumexp.item(row)
    return [(token, _prob(value - total)) for token, value in zip(ids, values, strict=True) if token >= 0]


def _prob(nats: float) -> float:
    return min(portable.exp_one(nats), 1.0) if nats > _LEAST_NATS else 0.0


def _adjusted(
    values: list[float], ids: list[int], adjustment: Adjustment, to_target: ToTargetIds
) -> tuple[list[float], list[int]]:
    """Apply penalties, and the bias of the target's ids; leave out what it bans."""
    touched: Iterable[int]
    if adjustment.biased:
        theirs, touched = to_target(np.array(ids, np.int64)).tolist(), range(len(ids))
    else:
        theirs, found = ids, adjustment.touched_of(ids)
        touched = [place for place, token in enumerate(ids) if token in found] if found else ()
    if not touched:
        return values, ids
    for place in touched:
        values[place] = adjustment.one(values[place], ids[place], theirs[place])
    order = sorted(range(len(ids)), key=lambda at: (-values[at], ids[at]))
    left = [at for at in order if values[at] > -math.inf]
    return [values[at] for at in left], [ids[at] for at in left]
