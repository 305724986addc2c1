"""Calibration: the share of tokens that were right, by the probability that they were stated with."""

from __future__ import annotations

from collections.abc import Sequence


class Calibration:
    """Counts in equal steps of the stated probability, the last of which is 1 alone.

    ``guesses`` are the shares before anything was counted, one for each step; they weigh as much as ``prior``
    tokens. Counts are halved after ``memory`` tokens of a step: text changes.
    """

    def __init__(self, guesses: Sequence[float], *, prior: float, memory: float) -> None:
        self._right = [prior * guess for guess in guesses]
        self._seen = [prior] * len(guesses)
        self._memory = memory

    def step(self, prob: float) -> int:
        """Return the step of a probability."""
        return int(prob * (len(self._seen) - 1))

    def of(self, prob: float) -> float:
        """Return the share of tokens of about this probability that were right."""
        step = self.step(prob)
        return self._right[step] / self._seen[step]

    def count(self, prob: float, right: bool) -> None:
        """Note whether a token of this probability was right."""
        step = self.step(prob)
        fade = 0.5 if self._seen[step] >= self._memory else 1.0
        self._seen[step] = fade * self._seen[step] + 1.0
        self._right[step] = fade * self._right[step] + right
