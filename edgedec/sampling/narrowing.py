"""The cuts that look at the whole distribution: locally typical, eta, top-H and mirostat, in this order.

They follow top-n-sigma, top-k, top-p and min-p. Each sees the distribution that the steps before it leave,
and leaves one token at least. A list that is only a prefix of the vocabulary may be too short to tell; then
the answer is None. The numbers that are compared do not depend on the length of the list.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from edgedec.core.quick_dataclass import dataclass
from edgedec.sampling import portable, warpers
from edgedec.sampling.candidates import Candidates, Row
from edgedec.sampling.params import DrawParams

F64 = NDArray[np.float64]
Places = NDArray[np.intp]
_LN2 = math.log(2.0)


class Shares:
    """Tokens of a distribution, best first: exponents (logit - highest) / T, and weights exp(exponent).

    ``complete``: they are all that the steps before have left. ``total`` and ``entropy`` (nats) are theirs
    unless they are given, for all that they are a part of.
    """

    def __init__(
        self, scaled: F64, *, complete: bool, total: float | None = None, entropy: float | None = None
    ) -> None:
        self.scaled = scaled
        self.weights = portable.exp(scaled)
        self.complete = complete
        self.total = warpers.total_of(self.weights) if total is None else total
        self._entropy = entropy

    @cached_property
    def entropy(self) -> float:
        """Entropy of the distribution in nats."""
        if self._entropy is not None:
            return self._entropy
        mean = warpers.total_of(self.weights * self.scaled) / self.total
        return portable.log_one(self.total) - mean

    def prefix(self, count: int | None) -> Places | None:
        """Return the first ``count`` places, one at least; None for None."""
        return None if count is None else np.arange(max(count, 1))


def typical(shares: Shares, mass: float) -> Places | None:
    """Keep tokens of a surprise nearest to the entropy until they reach ``mass`` (Meister et al. 2023)."""
    surprise = portable.log_one(shares.total) - shares.scaled
    far = np.abs(surprise - shares.entropy)
    order = np.argsort(far, kind="stable")
    reached = np.add.accumulate(shares.weights[order]) >= mass * shares.total
    first = int(reached.argmax())
    if not reached[first]:
        return np.arange(order.size) if shares.complete else None
    if not shares.complete and far[order[first]] > surprise[-1] - shares.entropy:
        return None  # a token behind the list may be nearer
    return np.sort(order[: first + 1])


def eta(shares: Shares, epsilon: float) -> Places | None:
    """Keep tokens of at least min(epsilon, sqrt(epsilon) * exp(-entropy)) (Hewitt et al. 2022)."""
    least = min(epsilon, math.sqrt(epsilon) * portable.exp_one(-shares.entropy))
    return shares.prefix(
        warpers.at_least_count(shares.weights, least * shares.total, complete=shares.complete)
    )


def top_h(shares: Shares, share: float) -> Places | None:
    """Keep as many of the best as have an entropy of at most ``share`` of all (Potraghloo et al. 2025)."""
    sums = np.add.accumulate(shares.weights)
    entropies = portable.log(sums) - np.add.accumulate(shares.weights * shares.scaled) / sums
    over = entropies > share * shares.entropy
    first = int(over.argmax())
    if over[first]:
        return shares.prefix(first)
    return shares.prefix(entropies.size) if shares.complete else None


def mirostat(shares: Shares, bound: float) -> Places | None:
    """Keep tokens with a surprise of at most ``bound`` bits (mirostat 2, Basu et al. 2021)."""
    least = portable.exp_one(min(-bound * _LN2, 0.0)) * shares.total
    return shares.prefix(warpers.at_least_count(shares.weights, least, complete=shares.complete))


@dataclass(frozen=True, slots=True)
class Cut:
    """One of the steps, with its value."""

    step: Callable[[Shares, float], Places | None]
    value: float


def cuts(params: DrawParams, bound: float | None) -> list[Cut]:
    """Return the steps that are on; ``bound``: mirostat's, None to leave it out."""
    found = [Cut(typical, params.typical)] if params.typical < 1.0 else []
    found += [Cut(eta, params.eta)] if params.eta else []
    found += [Cut(top_h, params.top_h)] if params.top_h < 1.0 else []
    return found + ([Cut(mirostat, bound)] if params.mirostat and bound is not None else [])


class Narrowing:
    """The steps of one draw. ``filtered``: whether other cuts went before them."""

    def __init__(self, row: Row, params: DrawParams, *, filtered: bool) -> None:
        self._row = row
        self._cuts = cuts(params, row.bound)
        self._filtered = filtered
        self._whole: tuple[float, float] | None = None
        """Sum of weights and entropy of the vocabulary."""

    def of(self, left: Candidates) -> Candidates | None:
        """Return what the steps leave of ``left``, or None when it is too short to tell."""
        filtered = self._filtered
        for cut in self._cuts:
            shares = self._shares(left, filtered)
            kept = None if shares is None else cut.step(shares, cut.value)
            if kept is None:
                return None
            left, filtered = Candidates(left.values[kept], left.ids[kept], True), True
        return left

    def _shares(self, left: Candidates, filtered: bool) -> Shares | None:
        highest = float(left.values[0])
        scaled = (left.values - highest) / self._row.temperature
        if filtered:
            return Shares(scaled, complete=True)
        if self._whole is None:
            total, entropy = self._row.total(highest), self._row.entropy(highest)
            if total is None or entropy is None:
                return None
            self._whole = total, entropy
        total, entropy = self._whole
        return Shares(scaled, complete=left.complete, total=total, entropy=entropy)
