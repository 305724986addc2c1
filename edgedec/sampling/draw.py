"""Drawing one token from one head row.

The head returns the k best logits of a row; whole rows are copied out of it only on request. ``draw`` decides
from the k best whenever that is provably enough (in ``short_list``, number by number), and otherwise from the
whole row (here, with arrays). Both ways give the same token: each cut keeps a prefix of the canonical order,
and the numbers that are compared come from the same operations.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from edgedec.core.errors import BackendError
from edgedec.core.rows import HeadRows
from edgedec.sampling import noise, portable, short_list, warpers
from edgedec.sampling.candidates import Candidates, Row
from edgedec.sampling.history import History
from edgedec.sampling.masked import Allowed, MaskedRow
from edgedec.sampling.narrowing import Narrowing
from edgedec.sampling.params import DrawParams

_LEADERS = 64


def draw(
    rows: HeadRows,
    row: int,
    params: DrawParams,
    position: int,
    history: History,
    allowed: Allowed | None = None,
) -> int:
    """The token for absolute position ``position``, from the head results at index ``row`` of ``rows``.

    ``history`` is what penalties read of the tokens before ``position``. A ``DrawHistory`` need not be made
    anew for every token; of plain tokens all count as said by the reply, and an ``Occurred`` serves the
    repetition penalty alone. Raises BackendError when the logits are not numbers, or when they were needed
    and ``rows`` was made without them; UsageError when the logit bias leaves no token.

    With ``allowed`` the token is one that it permits: all others leave before the warpers. Where these cut
    nothing off, or the draw is greedy, the winner of all tokens also wins among those allowed, if it is one;
    then no mask is made.
    """
    if allowed is not None:
        if params.greedy or params.uncut:
            token = draw(rows, row, params, position, history)
            if allowed.permits(token):
                return token
        return _drawn(MaskedRow(rows, row, params, history, allowed), params, position)
    best = rows.values.item(row, 0)
    if not math.isfinite(best):
        raise BackendError(f"the model returned {best} as its best logit", hint="verify the bundle")
    if params.greedy and not params.adjusts:
        return rows.ids.item(row, 0)
    return _drawn(Row(rows, row, params, history), params, position)


def distribution(
    rows: HeadRows,
    row: int,
    params: DrawParams,
    history: History,
    vocabulary: int,
    allowed: Allowed | None = None,
) -> warpers.F64:
    """The distribution f64[vocabulary] that ``draw`` draws from. Raises as ``draw`` does."""
    seen = row_of(rows, row, params, history, allowed)
    kept = survivors(seen, params)
    if kept is None:
        raise _no_rows()
    out = np.zeros(vocabulary)
    if params.greedy:
        out[kept.ids[0]] = 1.0
        return out
    weights = portable.exp((kept.values - kept.values.max()) / seen.temperature)
    out[kept.ids] = weights / weights.sum()
    return out


def row_of(rows: HeadRows, row: int, params: DrawParams, history: History, allowed: Allowed | None) -> Row:
    """The row that ``draw`` draws from."""
    if allowed is None:
        return Row(rows, row, params, history)
    return MaskedRow(rows, row, params, history, allowed)


def _drawn(seen: Row, params: DrawParams, position: int) -> int:
    if params.uncut:
        kept = _likely(seen, params, position)
    elif params.narrows and not params.greedy:
        kept = _cut(seen.prefixes(), seen, params)
    else:
        token = short_list.draw(seen, params, position)
        if token is not None:
            return token
        kept = _cut(seen.longer(), seen, params)
    if kept is None:
        raise _no_rows()
    return _choose(kept, seen, params, position)


def survivors(row: Row, params: DrawParams) -> Candidates | None:
    """The tokens that survive every warper, or None when only a whole row could tell."""
    if params.uncut:
        return row.unsorted()
    return _cut(row.prefixes(), row, params)


def _cut(prefixes: Iterable[Candidates], row: Row, params: DrawParams) -> Candidates | None:
    filtered = params.filters
    narrowing = Narrowing(row, params, filtered=filtered) if params.narrows and not params.greedy else None
    for candidates in prefixes:
        left: Candidates | None = candidates
        if narrowing is None or filtered:
            count = _count(candidates, row, params)
            left = Candidates(candidates.values[:count], candidates.ids[:count], True) if count else None
        if narrowing and left is not None and left.ids.size:
            left = narrowing.of(left)
        if left is not None and left.ids.size:
            return left
    return None


def _no_rows() -> BackendError:
    return BackendError("these sampling settings need whole logits rows and the pass returned none")


def _count(candidates: Candidates, row: Row, params: DrawParams) -> int | None:
    """How many of ``candidates`` survive the warpers; None when the list is too short to tell."""
    values, complete = candidates.values, candidates.complete
    if values.size == 0 or params.greedy:
        return min(values.size, 1)
    if params.top_n_sigma:
        cut = row.sigma_cut()
        count = None if cut is None else warpers.at_least_count(values, cut, complete=complete)
        if count is None:
            return None
        values, complete = values[:count], True
    if params.top_k:
        count = warpers.top_k_count(values, params.top_k, complete=complete)
        if count is None:
            return None
        values, complete = values[:count], True
    if params.top_p == 1.0 and params.min_p == 0.0:
        return values.size if complete else None
    return _nucleus(values, complete, row, params)


def _nucleus(values: warpers.F64, complete: bool, row: Row, params: DrawParams) -> int | None:
    highest = float(values[0])
    weights = portable.exp((values - highest) / row.temperature)
    if params.top_p < 1.0:
        filtered = params.top_n_sigma or params.top_k
        count = _top_p(weights, complete, row, params, None if filtered else highest)
        if count is None:
            return None
        weights, complete = weights[:count], True
    return warpers.at_least_count(weights, params.min_p, complete=complete)


def _top_p(
    weights: warpers.F64, complete: bool, row: Row, params: DrawParams, highest: float | None
) -> int | None:
    """How many tokens top-p leaves; ``highest`` is None when ``weights`` are all that earlier cuts left."""
    if highest is None:
        return warpers.top_p_count(weights, warpers.total_of(weights), params.top_p, complete=complete)
    if (bounds := row.total_bounds(highest)) is None:
        return None
    low, high = (warpers.top_p_count(weights, total, params.top_p, complete=complete) for total in bounds)
    if low == high:
        return low
    total = row.total(highest)
    assert total is not None  # there are bounds that differ for whole rows alone
    return warpers.top_p_count(weights, total, params.top_p, complete=complete)


def _choose(kept: Candidates, row: Row, params: DrawParams, position: int) -> int:
    """argmin of noise / weight (the lowest id on a tie); weights need no normalising."""
    if kept.ids.size == 1 or params.greedy:
        return int(kept.ids[0])
    scaled = (kept.values - kept.values.max()) / row.temperature
    ids = kept.ids
    if ids.size > 16 * _LEADERS:
        scaled, ids = _contenders(scaled, ids, params.seed, position)
    times = noise.exponential(params.seed, position, ids) / portable.exp(scaled)
    return int(ids[times == times.min()].min())


def _likely(row: Row, params: DrawParams, position: int) -> Candidates | None:
    """The leaders of a whole row and all others that can win, in no order; None without logits.

    Most of the vocabulary is then neither widened nor given a weight.
    """
    leaders = row.leaders()
    if leaders is None or leaders.complete:
        return leaders
    scaled = (leaders.values - leaders.values[0]) / row.temperature
    lucky = noise.above(
        params.seed, position, row.size, _least_uniform(scaled, leaders.ids, params.seed, position)
    )
    lucky = row.legal(lucky)
    values = np.concatenate([leaders.values, row.values_of(lucky)])
    return Candidates(values, np.concatenate([leaders.ids, lucky]), False)


def _contenders(
    scaled: warpers.F64, ids: warpers.Ids, seed: int, position: int
) -> tuple[warpers.F64, warpers.Ids]:
    """Leave out tokens that provably lose, to spare most logarithms of a long list."""
    threshold = np.partition(scaled, scaled.size - _LEADERS)[scaled.size - _LEADERS]
    leading = scaled >= threshold
    floor = _least_uniform(scaled[leading], ids[leading], seed, position)
    possible = leading | (noise.uniform(seed, position, ids) > floor)
    return scaled[possible], ids[possible]


def _least_uniform(scaled: warpers.F64, ids: warpers.Ids, seed: int, position: int) -> float:
    """Bound that the uniform of a token must exceed to win against these leaders, the most probable tokens.

    With w the weight of the last of the leaders and b the best time among them, another token can only win
    if its E < b * w, and E = -log U >= 1 - U, hence only if U > 1 - b * w.
    """
    weights = portable.exp(scaled)
    best = float((noise.exponential(seed, position, ids) / weights).min())
    return 1.0 - best * float(weights.min()) * (1.0 + 1e-9)  # the margin covers rounding
