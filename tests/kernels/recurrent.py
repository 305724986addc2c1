"""State of a sequence that a caller of the recurrent ops keeps, for their tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from edgedec.core.cache_kinds import TRAIL_SLOTS
from tests.kernels.float_rows import F32


class RecurrentLayer(Protocol):
    """A layer with its weights."""

    @property
    def taps(self) -> int: ...
    @property
    def trail(self) -> int: ...
    @property
    def state(self) -> int: ...
    @property
    def outputs(self) -> int: ...
    def tokens(self, count: int) -> F32: ...

    def rows(self, tokens: F32) -> F32:
        """The rows that tokens leave in the trail."""
        ...

    def call(self, row: str, memory: Memory, tokens: F32, parents: Sequence[int], out: F32) -> int:
        """One pass; the status of the call."""
        ...


def undone(layer: RecurrentLayer) -> int:
    """Most tokens that can be taken back."""
    return TRAIL_SLOTS - (layer.taps - 1)


@dataclass
class Memory:
    """Trail and state of one sequence, and what a caller counts. All rows of the trail are NaN at first."""

    layer: RecurrentLayer
    trail: F32 = field(init=False)
    state: F32 = field(init=False)
    length: int = 0
    applied: int = 0

    def __post_init__(self) -> None:
        self.trail = np.full((TRAIL_SLOTS, self.layer.trail), np.float32(np.nan))
        self.state = np.zeros(self.layer.state, np.float32)

    def run(self, row: str, tokens: F32, parents: Sequence[int] | None = None) -> F32:
        """One pass. Its tokens are counted if they are a chain (``parents`` is None), else only tried."""
        count = len(tokens)
        out = np.full((count, self.layer.outputs), np.float32(np.nan))
        given = range(-1, count - 1) if parents is None else parents
        assert self.layer.call(row, self, tokens, given, out) == 0
        self.applied = self.length
        if parents is None:
            self.applied = max(self.length, self.length + count - undone(self.layer))
            self.length += count
        return out

    def keep(self, path: Sequence[int]) -> None:
        """Count tokens of the tree that the last pass tried, as a caller does who accepts them."""
        rows = [self.trail[(self.length + node) % TRAIL_SLOTS].copy() for node in path]
        for place, kept in enumerate(rows):
            self.trail[(self.length + place) % TRAIL_SLOTS] = kept
        self.length += len(path)
