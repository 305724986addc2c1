"""What logit bias and penalties make of logits, before temperature and cuts."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from edgedec.sampling import warpers
from edgedec.sampling.bias import BANS
from edgedec.sampling.history import DrawHistory, History
from edgedec.sampling.params import DrawParams

F64 = NDArray[np.float64]
Ids = NDArray[np.int64]


class Adjustment:
    """The adjusted logits of one draw: bias, repetition penalty, then frequency and presence penalties.

    Only the ids of ``touched`` change. A banned token has the logit -inf.
    """

    def __init__(self, params: DrawParams, history: History) -> None:
        self._penalty = params.repetition_penalty
        self._frequency, self._presence = params.frequency_penalty, params.presence_penalty
        self._history = DrawHistory.of(history, params)
        self._counts = params.counts
        self._bias = {token: -math.inf if value == BANS else value for token, value in params.logit_bias}
        self.bans = -math.inf in self._bias.values()
        """Whether there are tokens that cannot be drawn."""
        self.lifts = (
            self._penalty < 1.0
            or min(self._frequency, self._presence) < 0.0
            or max(self._bias.values(), default=0.0) > 0.0
        )
        """Whether a logit may become higher than it was."""

    def one(self, value: float, token: int, biased: int | None = None) -> float:
        """Return the adjusted logit of ``token``; ``biased``: its id in the bias, if that is another."""
        if self._bias:
            value += self._bias.get(token if biased is None else biased, 0.0)
        if self._penalty != 1.0 and token in self._history.occurred:
            value = warpers.penalise_one(value, self._penalty)
        if self._counts and (count := self._history.said.get(token)):
            value -= count * self._frequency + self._presence
        return value

    @property
    def biased(self) -> bool:
        """Whether there is a bias, which may change any logit."""
        return bool(self._bias)

    def touched_of(self, tokens: list[int]) -> set[int]:
        """Return those of ``tokens`` whose logits penalties change."""
        found = self._history.occurred.among(tokens) if self._penalty != 1.0 else set()
        return found | self._history.said.keys() & set(tokens) if self._counts else found

    def touched(self) -> Ids:
        """Return the ids, each once, whose logits may change."""
        if not self._bias and not self._counts:
            return self._history.occurred.ids()
        biased = np.fromiter(self._bias, np.int64, len(self._bias))
        return np.unique(np.concatenate([biased, self._history.occurred.ids(), self._history.said_ids()[0]]))

    def of_touched(self, values: F64) -> F64:
        """Return the adjusted logits of ``touched``, all of which are in the vocabulary."""
        if not self._bias and not self._counts:
            return warpers.penalise(values, self._penalty)
        return self.applied(values.copy(), self.touched())

    def applied(self, values: F64, ids: Ids | None = None) -> F64:
        """Adjust ``values`` in place: logits of ``ids``, which ascend; None: of the whole vocabulary."""
        if not values.size:
            return values
        if self._bias:
            places, known = _places(np.fromiter(self._bias, np.int64, len(self._bias)), ids, values.size)
            values[places] += np.fromiter(self._bias.values(), np.float64, len(self._bias))[known]
        if self._penalty != 1.0:
            places, _ = _places(self._history.occurred.ids(), ids, values.size)
            values[places] = warpers.penalise(values[places], self._penalty)
        if self._counts:
            said, counts = self._history.said_ids()
            places, known = _places(said, ids, values.size)
            values[places] -= counts[known] * self._frequency + self._presence
        return values


def _places(wanted: Ids, ids: Ids | None, size: int) -> tuple[Ids, NDArray[np.bool_]]:
    """Return the places of those of ``wanted`` that are among ``ids``, and which ones these are."""
    if ids is None:
        known = wanted < size
        return wanted[known], known
    places = np.minimum(np.searchsorted(ids, wanted), size - 1)
    known = ids[places] == wanted
    return places[known], known
