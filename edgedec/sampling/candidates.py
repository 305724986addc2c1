"""The tokens that a draw can look at: the head's k best, or as much of a whole row as it takes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from edgedec.core.errors import BackendError, UsageError
from edgedec.core.quick_dataclass import dataclass
from edgedec.core.rows import HeadRows
from edgedec.sampling import portable, warpers
from edgedec.sampling.adjustment import Adjustment
from edgedec.sampling.history import DrawHistory, History
from edgedec.sampling.params import DrawParams
from edgedec.sampling.temperature import temperature_of

F64 = NDArray[np.float64]
Ids = NDArray[np.int64]

_LONGER = 1024
"""Candidates sorted out of a whole row at first; then ``_STEP`` times as many, until it is all of it."""
_STEP = 8
_SUM_ERROR = 1e-5, 1e-6
"""Error, at most, of the head's float32 logsumexp: absolute, and relative to it."""
_MOST_EXPONENT = 700.0
"""``portable.exp`` takes no larger numbers."""
_BLOCK = 8192
"""Weights computed at a time: they stay in the processor's cache."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """A prefix, in canonical order, of the adjusted vocabulary; ``complete`` when it is all of it.

    Banned tokens are left out.

    values f64[n] logits, ids i64[n].
    """

    values: F64
    ids: Ids
    complete: bool


class Row:
    """One head row under given parameters; the whole row is touched only when a property needs it.

    ``history``: what the draw reads of the tokens before this position; see ``draw``.
    """

    def __init__(self, rows: HeadRows, row: int, params: DrawParams, history: History) -> None:
        self._rows = rows
        self._row = row
        self._params = params
        self._adjustment = Adjustment(params, history) if params.adjusts else None
        self.temperature = temperature_of(params, rows, row)
        self.bound = DrawHistory.of(history, params).bound if params.mirostat else None
        """Most bits of surprise that mirostat allows."""

    def listed(self) -> tuple[list[float], list[int]]:
        """The head's list as plain numbers: adjusted logits and ids, as far as their order is sure."""
        values, ids = self._rows.values[self._row].tolist(), self._rows.ids[self._row].tolist()
        return (values, ids) if self._adjustment is None else self._adjusted_list(values, ids)

    @property
    def complete(self) -> bool:
        """Whether the head's list is all of the vocabulary."""
        return self._logits is not None and self.size == self._rows.ids.shape[1]

    def prefixes(self) -> Iterator[Candidates]:
        """Longer and longer prefixes: the head's list, then those of the whole row."""
        yield self._from_head()
        yield from self.longer()

    def longer(self) -> Iterator[Candidates]:
        """Longer and longer prefixes out of the whole row; none without logits."""
        if self._logits is not None:
            longer = max(_LONGER, self._params.top_k)
            while longer < self._logits.size:
                yield self._from_row(longer)
                longer *= _STEP
            yield self._from_row(self._logits.size)

    def unsorted(self) -> Candidates | None:
        """The whole vocabulary in id order, without banned tokens, or None without logits."""
        if self._logits is None:
            return None
        ids = np.arange(self._whole.size)
        if self._adjustment and self._adjustment.bans:
            ids = np.flatnonzero(self._whole > -np.inf)
        return Candidates(self._whole[ids], ids, True)

    def leaders(self) -> Candidates | None:
        """A prefix of at least one token that takes little sorting, or None without logits."""
        if self._logits is None:
            return None
        self._check_numbers()
        found = self._from_head()
        return found if found.ids.size else self._from_row(min(self._rows.ids.shape[1], self.size))

    def legal(self, ids: Ids) -> Ids:
        """Those of ``ids`` that may be drawn."""
        return ids

    def values_of(self, ids: Ids) -> F64:
        """Adjusted logits f64 of ``ids``, which ascend; only for rows with logits."""
        assert self._logits is not None
        values = self._logits[ids].astype(np.float64)
        return values if self._adjustment is None else self._adjustment.applied(values, ids)

    @property
    def size(self) -> int:
        """Tokens in the vocabulary; only for rows with logits."""
        assert self._logits is not None
        return int(self._logits.size)

    def sigma_cut(self) -> float | None:
        """Lowest logit kept by top-n-sigma, or None without logits."""
        return None if self._logits is None else warpers.sigma_cut(self._whole, self._params.top_n_sigma)

    def total(self, highest: float) -> float | None:
        """Sum of exp((logit - highest) / T) over the whole vocabulary, or None when it cannot be had.

        Where the head added up at this temperature and nothing is adjusted, it is the head's own sum,
        logits at hand or not; else it is added up from the whole row.
        """
        temperature = self.temperature
        if temperature == self._rows.temperature and self._adjustment is None:
            return portable.exp_one(self._logsumexp - highest / temperature)
        if self._logits is None:
            return None
        sum_so_far = 0.0
        for start in range(0, self._whole.size, _BLOCK):
            weights = portable.exp((self._whole[start : start + _BLOCK] - highest) / temperature)
            weights[0] += sum_so_far
            sum_so_far = warpers.total_of(weights)
        return sum_so_far

    def entropy(self, highest: float) -> float | None:
        """Entropy in nats of the whole vocabulary, or None when it cannot be had; see ``total``."""
        if self.temperature == self._rows.temperature and self._adjustment is None:
            return self._rows.entropy.item(self._row)
        return None if self._logits is None else entropy_of(self._whole, highest, self.temperature)

    def total_bounds(self, highest: float) -> tuple[float, float] | None:
        """Two numbers between which ``total`` lies, mostly without reading the whole row.

        The head's sum is corrected by the ids that an adjustment touches: their weights before it go, those
        after it come. Where these bounds cannot decide, ``total`` does.
        """
        if (corrected := self._corrected()) is None:
            total = self.total(highest)
            return None if total is None else (total, total)
        scale = portable.exp_one(self._logsumexp - highest / self.temperature)
        absolute, relative = _SUM_ERROR
        error = absolute + relative * abs(self._logsumexp)
        return (corrected - error) * scale, (corrected + error) * scale

    def _corrected(self) -> float | None:
        """The sum of adjusted weights in units of the head's own sum; None where that is not possible."""
        temperature = self.temperature
        if self._adjustment is None or self._logits is None or temperature != self._rows.temperature:
            return None
        touched = self._adjustment.touched()
        if touched.size and int(touched.max()) >= self.size:
            return None
        values = self._logits[touched].astype(np.float64)
        if not values.size:
            return 1.0
        adjusted = self._adjustment.of_touched(values)
        exponents = np.concatenate([adjusted, values]) / temperature - self._logsumexp
        if not exponents.max() < _MOST_EXPONENT:
            return None
        shares = portable.exp(exponents)
        return 1.0 - warpers.total_of(shares[values.size :]) + warpers.total_of(shares[: values.size])

    @property
    def _logsumexp(self) -> float:
        return self._rows.logsumexp.item(self._row)

    @property
    def _logits(self) -> NDArray[np.float32] | None:
        logits = self._rows.logits
        return None if logits is None else logits[self._row]

    def _check_numbers(self) -> None:
        assert self._logits is not None
        if np.isnan(self._logits.max()):  # a maximum passes NaN on
            raise BackendError("the model returned logits that are not numbers", hint="verify the bundle")

    @cached_property
    def _whole(self) -> F64:
        assert self._logits is not None
        self._check_numbers()
        values = self._logits.astype(np.float64)
        return values if self._adjustment is None else self._adjustment.applied(values)

    def _from_head(self) -> Candidates:
        values, ids = self.listed()
        return Candidates(np.array(values, np.float64), np.array(ids, np.int64), self.complete)

    def _adjusted_list(self, values: list[float], ids: list[int]) -> tuple[list[float], list[int]]:
        """Adjusted logits and ids, as far as they lead the adjusted vocabulary for certain.

        Logits outside the list are at most its last one, and stay there unless an adjustment lifts them:
        those it may lift join the list. So values above that floor are in order, and all is if nothing moved.
        """
        assert self._adjustment is not None
        if self._adjustment.lifts and not self.complete and self._logits is None:
            return [], []
        moved = [self._adjustment.one(value, token) for value, token in zip(values, ids, strict=True)]
        pairs = list(zip(moved, ids, strict=True))
        if self._adjustment.lifts and not self.complete:
            pairs += self._lifted(set(ids), values[-1])
        ranked = sorted(pairs, key=lambda pair: (-pair[0], pair[1]))
        if not self.complete and (self._adjustment.lifts or moved != values):
            ranked = [pair for pair in ranked if pair[0] > values[-1]]
        if self._adjustment.bans:
            ranked = [pair for pair in ranked if pair[0] > -math.inf]
        return [value for value, _ in ranked], [token for _, token in ranked]

    def _lifted(self, listed: set[int], floor: float) -> list[tuple[float, int]]:
        """Adjusted logits above ``floor``, and ids, of tokens that are not in the list."""
        assert self._adjustment is not None
        assert self._logits is not None
        touched = self._adjustment.touched()
        touched = np.sort(touched[touched < self.size])
        values = self._adjustment.applied(self._logits[touched].astype(np.float64), touched)
        pairs = zip(values.tolist(), touched.tolist(), strict=True)
        return [(value, token) for value, token in pairs if value > floor and token not in listed]

    def _from_row(self, size: int) -> Candidates:
        assert self._logits is not None
        if self._adjustment:
            ids = _largest(self._whole, size)
            values = self._whole[ids]
        else:  # widened only where it is kept: most of a draw's time would go there
            self._check_numbers()
            ids = _largest(self._logits, size)
            values = self._logits[ids].astype(np.float64)
        order = np.argsort(-values, kind="stable")  # the canonical one, for ids ascend
        complete = ids.size == self.size
        if self._adjustment and self._adjustment.bans:
            order = order[: np.count_nonzero(values > -np.inf)]
            if not order.size:
                raise UsageError("no token is left to draw", hint="the logit bias bans every one")
        return Candidates(values[order], ids[order], complete)


def entropy_of(values: F64, highest: float, temperature: float) -> float:
    """Entropy in nats of the softmax of ``values`` at ``temperature``."""
    total = mean = 0.0
    for start in range(0, values.size, _BLOCK):
        scaled = (values[start : start + _BLOCK] - highest) / temperature
        weights = portable.exp(scaled)
        shares = weights * np.maximum(scaled, -_MOST_EXPONENT)
        weights[0] += total
        shares[0] += mean
        total, mean = warpers.total_of(weights), warpers.total_of(shares)
    return portable.log_one(total) - mean / total


def _largest(row: NDArray[np.floating], size: int) -> Ids:
    """Ids, ascending, of the ``size`` largest of a row and of all equal to the last of them."""
    if size >= row.size:
        return np.arange(row.size)
    return np.flatnonzero(row >= np.partition(row, row.size - size)[row.size - size])
