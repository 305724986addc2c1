"""Switching at random, for tests of what holds whenever models change."""

from __future__ import annotations

import numpy as np

from edgedec.control.switching import DEFAULT_RULE, EntropySwitching


class RandomSwitching(EntropySwitching):
    """Lets the large model write a given share of all runs, chosen at random.

    Each piece of ``least_run`` tokens is the large model's with probability ``share``.
    """

    def __init__(self, share: float, least_run: int = 10, seed: int = 0) -> None:
        super().__init__(DEFAULT_RULE)
        self._share = share
        self._least_run = least_run
        self._random = np.random.default_rng(seed)
        self._run = 0
        self._large = self._wanted = self._drawn()

    def add(self, entropy_bits: float | None) -> bool:
        """Count a token; the entropy does not count."""
        self._run += 1
        if self._run < self._least_run:
            return False
        if self._run % self._least_run == 0:
            self._wanted = self._drawn()
        return self._wanted != self._large

    def switch(self) -> None:
        """Let the other model write from now on."""
        self._large = not self._large
        self._run = 0

    def _drawn(self) -> bool:
        return bool(self._random.random() < self._share)
