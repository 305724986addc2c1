"""Which tokens a draw can look at: the head's k best, or as much of a whole row as it takes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from edgedec.core.errors import BackendError
from edgedec.core.rows import HeadRows
from edgedec.sampling import portable, warpers
from edgedec.sampling.params import SamplingParams

F64 = NDArray[np.float64]
Ids = NDArray[np.int64]

_LONGER = 1024
"""Candidates sorted out of a whole row at first; then ``_STEP`` times as many, until it is all of it."""
_STEP = 8


@dataclass(frozen=True, slots=True)
class Candidates:
    """A prefix, in canonical order, of the vocabulary after the penalty; ``complete`` when it is all of it.

    values f64[n] logits, ids i64[n].
    """

    values: F64
    ids: Ids
    complete: bool


class Row:
    """One head row under given parameters; the whole row is touched only when a property needs it."""

    def __init__(self, rows: HeadRows, row: int, params: SamplingParams, history: Sequence[int]) -> None:
        self._rows = rows
        self._row = row
        self._params = params
        self._history = history

    def listed(self) -> tuple[list[float], list[int]]:
        """The head's list as plain numbers: logits after the penalty and ids."""
        if self._penalised:
            found = self._from_head()
            return found.values.tolist(), found.ids.tolist()
        return self._rows.values[self._row].tolist(), self._rows.ids[self._row].tolist()

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
        """The whole vocabulary in id order, or None without logits."""
        return None if self._logits is None else Candidates(self._whole, np.arange(self._whole.size), True)

    def leaders(self) -> Candidates | None:
        """A prefix of at least one token that takes little sorting, or None without logits."""
        if self._logits is None:
            return None
        self._check_numbers()
        found = self._from_head()
        return found if found.ids.size else self._from_row(min(self._rows.ids.shape[1], self.size))

    def values_of(self, ids: Ids) -> F64:
        """Logits f64 of some tokens after the penalty; only for rows with logits."""
        assert self._logits is not None
        return self._penalise(self._logits[ids].astype(np.float64), ids)

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

        Where the head added up at this temperature, and nothing is penalised, it is the head's own sum,
        logits at hand or not.
        """
        temperature = self._params.temperature
        if temperature == self._rows.temperature and not self._penalised:
            return portable.exp_one(self._rows.logsumexp.item(self._row) - highest / temperature)
        if self._logits is None:
            return None
        return warpers.total_of(portable.exp((self._whole - highest) / temperature))

    @property
    def _logits(self) -> NDArray[np.float32] | None:
        logits = self._rows.logits
        return None if logits is None else logits[self._row]

    @property
    def _penalised(self) -> bool:
        return self._params.repetition_penalty != 1.0

    def _check_numbers(self) -> None:
        assert self._logits is not None
        if np.isnan(self._logits.max()):  # a maximum passes NaN on
            raise BackendError("the model returned logits that are not numbers", hint="verify the bundle")

    @cached_property
    def _whole(self) -> F64:
        assert self._logits is not None
        self._check_numbers()
        return self._penalise(self._logits.astype(np.float64), np.arange(self.size))

    def _penalise(self, values: F64, ids: Ids) -> F64:
        if not self._penalised:
            return values
        return warpers.penalise(values, ids, self._history, self._params.repetition_penalty)

    def _from_head(self) -> Candidates:
        values = self._rows.values[self._row].astype(np.float64)
        ids = self._rows.ids[self._row].astype(np.int64)
        complete = self.complete
        if not self._penalised:
            return Candidates(values, ids, complete)
        moved = self._penalise(values, ids)
        order = warpers.canonical_order(moved, ids)
        if not complete:
            order = order[: self._certain(values, moved)]
        return Candidates(moved[order], ids[order], complete)

    def _certain(self, values: F64, moved: F64) -> int:
        """How many of the penalised list lead the penalised vocabulary for certain.

        Logits outside the list are at most its last one. A penalty above 1 only lowers them, so what stayed
        above that floor is in order (and all is, if nothing in the list moved); a smaller one may lift any.
        """
        if self._params.repetition_penalty < 1.0:
            return 0
        return values.size if np.array_equal(moved, values) else int(np.count_nonzero(moved > values[-1]))

    def _from_row(self, size: int) -> Candidates:
        assert self._logits is not None
        if self._penalised:
            ids = _largest(self._whole, size)
            values = self._whole[ids]
        else:  # widened only where it is kept: most of a draw's time would go there
            self._check_numbers()
            ids = _largest(self._logits, size)
            values = self._logits[ids].astype(np.float64)
        order = np.argsort(-values, kind="stable")  # the canonical one, for ids ascend
        return Candidates(values[order], ids[order], ids.size == self.size)


def _largest(row: NDArray[np.floating], size: int) -> Ids:
    """Ids, ascending, of the ``size`` largest of a row and of what equals the last of them."""
    if size >= row.size:
        return np.arange(row.size)
    return np.flatnonzero(row >= np.partition(row, row.size - size)[row.size - size])
