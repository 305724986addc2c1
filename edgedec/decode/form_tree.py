"""The places of a form that tries of a reply have reached, and the model's law at each of them.

The model gives a reply x the probability p(x). The tree knows beginnings with which no reply has the form:
at a known place, every token that the form forbids. D are the replies that begin so. A try draws from
norm(p(x) [x not in D]), which is done place by place: at a known place a permitted token v has the weight
p(v) live(v), for live(v) the probability that a reply which goes on with v is not in D, as far as it is
known. That is 1 behind tokens after which no place is known. (Constrained adaptive rejection sampling, Parys
et al. 2025; oracles that are exact where they are known, as in Park et al. 2024.)
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Final

import numpy as np
from numpy.typing import NDArray

from edgedec.core_lib import numbers

LISTED = 64
"""Permitted tokens of a place that have weights of their own; the others are one."""
MOST_PLACES = 2_000
"""Places of a tree, at about 2 kB. One that is not known costs tries, and changes no law."""
REST: Final = -1
"""The choice of a token that is not listed."""


class FormPlace:
    """The tokens that may come next at a place, with the logarithms of their probabilities.

    ``rest``: the logarithm of the probability of permitted tokens that are not listed. ``live``: that of not
    being known to leave the form from here on. ``behind``: places by the listed token before them.
    """

    __slots__ = ("behind", "ids", "live", "logs", "rest")

    def __init__(self, ids: NDArray[np.int64], logs: NDArray[np.float64], rest: float) -> None:
        self.ids, self.logs, self.rest = ids, logs, rest
        self.behind: dict[int, FormPlace] = {}
        self.live = _log_sum(self._weights())

    @classmethod
    def of(cls, logits: NDArray[np.float32], bits: NDArray[np.uint8], temperature: float) -> FormPlace:
        """Return the place with a row of logits and a bit for each token that the form permits."""
        scaled = logits.astype(np.float64) / temperature
        scaled -= scaled.max()
        scaled -= numbers.log(_sum(numbers.exp(scaled)))
        ids = np.flatnonzero(np.unpackbits(bits, bitorder="little", count=len(scaled)))
        logs = scaled[ids]
        if len(ids) <= LISTED:
            return cls(ids, logs, -inf)
        least = np.partition(logs, -LISTED)[-LISTED]
        best = np.flatnonzero(logs >= least)
        best = best[np.lexsort((ids[best], -logs[best]))][:LISTED]  # ties: the lower id first
        others = np.delete(logs, best)
        return cls(ids[best], logs[best], _log_sum(others))

    def lists(self, token: int) -> bool:
        """Whether ``token`` has a weight of its own."""
        return bool((self.ids == token).any())

    def learn(self) -> None:
        """Take over what is known behind it."""
        self.live = _log_sum(self._weights())

    def choose(self, seed: int, position: int) -> int:
        """Draw a token, or ``REST``, among what is not known to leave the form."""
        weights = self._weights()
        noise = numbers.exponential(np.append(self.ids, REST).astype(np.float64), seed, position)
        times = noise / numbers.exp(weights - weights.max())
        times[weights == -inf] = inf
        at = int(times.argmin())
        return int(self.ids[at]) if at < len(self.ids) else REST

    def _weights(self) -> NDArray[np.float64]:
        """Return the logarithms of p(v) live(v) of the listed tokens, and of the rest."""
        weights = np.append(self.logs, self.rest)
        for token, place in self.behind.items():
            weights[:-1][self.ids == token] += place.live
        return weights


class FormTree:
    """All known places."""

    def __init__(self) -> None:
        self.root: FormPlace | None = None
        self._count = 0

    @property
    def live(self) -> float:
        """The logarithm of the most that the probability of the form can be."""
        return self.root.live if self.root else 0.0

    def place(self, tokens: Sequence[int]) -> FormPlace | None:
        """Return the place behind ``tokens``; None where it is not known."""
        found = self.root
        for token in tokens:
            if found is None:
                return None
            found = found.behind.get(token)
        return found

    def takes(self, tokens: Sequence[int]) -> bool:
        """Whether the place behind ``tokens`` can be added: it hangs on a known one."""
        if self._count == MOST_PLACES:
            return False
        if not tokens:
            return self.root is None
        before = self.place(tokens[:-1])
        return before is not None and before.lists(tokens[-1]) and tokens[-1] not in before.behind

    def add(self, tokens: Sequence[int], place: FormPlace) -> None:
        """Add a place that it takes."""
        self._count += 1
        if not tokens:
            self.root = place
            return
        before = self.place(tokens[:-1])
        assert before is not None, "it was asked for"
        before.behind[tokens[-1]] = place

    def learn(self, tokens: Sequence[int]) -> None:
        """Let all places on the way of a try know what the last ones do."""
        way, place = [], self.root
        for token in (*tokens, REST):
            if place is None:
                break
            way.append(place)
            place = place.behind.get(token)
        for one in reversed(way):
            one.learn()


def _sum(x: NDArray[np.float64]) -> float:
    """The sum, one number after the other: NumPy's own order is its own affair."""
    return float(np.cumsum(x)[-1])


def _log_sum(logs: NDArray[np.float64]) -> float:
    """The logarithm of the sum of numbers that are given by theirs."""
    highest = float(logs.max())
    if highest == -inf:
        return -inf
    shifted = logs - highest
    return highest + numbers.log(_sum(numbers.exp(shifted[shifted > -inf])))
