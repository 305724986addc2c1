"""Mirostat's state: the most bits of surprise that the next token may have (mirostat 2, Basu et al. 2021).

It begins at twice the target and moves with each committed token: a function of the tokens before it and of
the model's answers to them, however these came about.
"""

from __future__ import annotations

import math

from edgedec.core.rows import HeadRows
from edgedec.sampling import portable, warpers
from edgedec.sampling.draw import row_of, survivors
from edgedec.sampling.history import DrawHistory
from edgedec.sampling.masked import Allowed
from edgedec.sampling.params import DrawParams


def bound_after(
    rows: HeadRows,
    row: int,
    params: DrawParams,
    token: int,
    history: DrawHistory,
    allowed: Allowed | None = None,
) -> float:
    """Return the bound after ``token``, which ``draw`` drew with these arguments.

    The error is the surprise of the token among those that every cut left, less the target.
    """
    seen = row_of(rows, row, params, history, allowed)
    kept = survivors(seen, params)
    assert kept is not None, "a token was drawn from it"
    assert seen.bound is not None
    weights = portable.exp((kept.values - kept.values.max()) / seen.temperature)
    share = float(weights[kept.ids == token][0]) / warpers.total_of(weights)
    surprise = -portable.log_one(share) / math.log(2.0)
    return seen.bound - params.mirostat_eta * (surprise - params.mirostat)
