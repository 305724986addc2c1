"""Draws among the tokens that a mask allows.

The mask applies before every warper: p_masked = norm(p * mask), and top-k, top-p and the others cut that. A
part of a canonical order without some tokens is in canonical order still, so all that ``Row`` knows of the
vocabulary holds here for what is allowed of it; only sums have to be made anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from edgedec.core.errors import UsageError
from edgedec.core.rows import HeadRows
from edgedec.sampling import portable, warpers
from edgedec.sampling.candidates import Candidates, Ids, Row, entropy_of
from edgedec.sampling.history import History
from edgedec.sampling.params import DrawParams

_FEW = 1024
"""Allowed tokens that are all sorted at once."""
_NEAR = 2.0
"""Logits below the list's last one among which the rest of top-k is looked for."""
_PROBES = 4
"""Tokens of the list that show how much is allowed."""
_MARGIN = 1e-4
"""Covers the error of the head's float32 sum, and of adding up."""
_MOST_EXPONENT = 600.0


class Allowed(Protocol):
    """The tokens that may come next."""

    def permits(self, token: int) -> bool:
        """Whether ``token`` may come next; cheaper than ``bits``."""
        ...

    def bits(self) -> NDArray[np.uint8]:
        """A bit for each token, that of id 0 the lowest of the first byte; 1: it may come next."""
        ...


class MaskedRow(Row):
    """A head row of which ``allowed`` leaves some tokens; see ``Row``."""

    def __init__(
        self,
        rows: HeadRows,
        row: int,
        params: DrawParams,
        history: History,
        allowed: Allowed,
    ) -> None:
        super().__init__(rows, row, params, history)
        self._allowed = allowed
        self._known: dict[int, bool] = {}
        """Tokens that were asked for one by one."""

    @property
    def complete(self) -> bool:
        return False

    def listed(self) -> tuple[list[float], list[int]]:
        values, ids = super().listed()
        legal = self._permitted(np.array(ids, np.int64)).tolist()
        kept = [(value, id) for value, id, may in zip(values, ids, legal, strict=True) if may]
        return [value for value, _ in kept], [id for _, id in kept]

    def longer(self) -> Iterator[Candidates]:
        if self._logits is None:
            return
        if self._wide and (near := self._near()) is not None:
            yield near
        if self._ids.size <= _FEW:
            yield self._all()
            return
        for found in super().longer():
            legal = self._permitted(found.ids)
            yield Candidates(found.values[legal], found.ids[legal], found.complete)

    def unsorted(self) -> Candidates | None:
        return None if self._logits is None else Candidates(self.values_of(self._ids), self._ids, True)

    def leaders(self) -> Candidates | None:
        if self._logits is None:
            return None
        self._check_numbers()
        found = self._from_head()
        return found if found.ids.size else next(one for one in self.longer() if one.ids.size)

    def legal(self, ids: Ids) -> Ids:
        return ids[self._permitted(ids)]

    def sigma_cut(self) -> float | None:
        if self._logits is None:
            return None
        return warpers.sigma_cut(self.values_of(self._ids), self._params.top_n_sigma)

    def total(self, highest: float) -> float | None:
        if self._logits is None:
            return None
        scaled = (self.values_of(self._ids) - highest) / self.temperature
        return warpers.total_of(portable.exp(scaled))

    def entropy(self, highest: float) -> float | None:
        if self._logits is None:
            return None
        return entropy_of(self.values_of(self._ids), highest, self.temperature)

    def total_bounds(self, highest: float) -> tuple[float, float] | None:
        """Bounds of ``total``: the allowed tokens of the list have a part of it, the others none."""
        if (whole := self._whole_at_most(highest)) is not None:
            values, ids = super().listed()
            weights = portable.exp((np.array(values, np.float64) - highest) / self.temperature)
            legal = self._permitted(np.array(ids, np.int64))
            least = float(weights[legal].sum())
            most = max(whole - float(weights[~legal].sum()), least)
            return least * (1.0 - _MARGIN), most + _MARGIN * whole
        total = self.total(highest)
        return None if total is None else (total, total)

    def _whole_at_most(self, highest: float) -> float | None:
        """The sum over the whole vocabulary, or a little more; None where only the row itself could tell."""
        temperature = self.temperature
        exponent = self._logsumexp - highest / temperature
        if temperature != self._rows.temperature or not exponent < _MOST_EXPONENT:
            return None
        if self._corrected() is None:
            return super().total(highest)
        bounds = super().total_bounds(highest)
        return None if bounds is None else bounds[1]

    def _all(self) -> Candidates:
        values = self.values_of(self._ids)
        order = np.argsort(-values, kind="stable")  # the canonical one, for ids ascend
        return Candidates(values[order], self._ids[order], True)

    def _near(self) -> Candidates | None:
        """As many of the best allowed tokens as top-k keeps, without a mask; None where that takes too many.

        Mostly they are in the list or a little below it.
        """
        assert self._logits is not None
        if self._adjustment or not self._params.top_k:
            return None
        self._check_numbers()
        ids = np.flatnonzero(self._logits > self._rows.values[self._row, -1] - _NEAR)
        if ids.size > _FEW:
            return None
        values = self._logits[ids].astype(np.float64)
        found: list[int] = []
        for place in np.argsort(-values, kind="stable").tolist():
            if self._permits(int(ids[place])):
                found.append(place)
                if len(found) == self._params.top_k:
                    return Candidates(values[found], ids[found], False)
        return None

    @cached_property
    def _wide(self) -> bool:
        """Whether most tokens may come next, as in a string: a mask takes long there, one token does not."""
        first = self._rows.ids[self._row, :_PROBES].tolist()
        return sum(self._permits(token) for token in first) > _PROBES // 2

    def _permits(self, token: int) -> bool:
        known = self._known.get(token)
        if known is None:
            known = self._known[token] = self._allowed.permits(token)
        return known

    def _permitted(self, ids: Ids) -> NDArray[np.bool_]:
        if ids.size <= self._rows.ids.shape[1] and "_bits" not in self.__dict__ and self._wide:
            return np.array([self._permits(token) for token in ids.tolist()], np.bool_)
        bits = self._bits[ids >> 3] >> (ids & 7).astype(np.uint8)
        return np.asarray(bits & 1, np.bool_)

    @cached_property
    def _bits(self) -> NDArray[np.uint8]:
        return self._allowed.bits()

    @cached_property
    def _ids(self) -> Ids:
        """Ids of all allowed tokens that are not banned, ascending."""
        self._check_numbers()
        ids = np.flatnonzero(np.unpackbits(self._bits, count=self.size, bitorder="little").view(np.bool_))
        if self._adjustment and self._adjustment.bans:
            ids = ids[self.values_of(ids) > -np.inf]
        if not ids.size:
            raise UsageError("no token is left to draw", hint="grammar and logit bias leave none")
        return ids
