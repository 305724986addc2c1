"""A model of llama.cpp's cache and of its rules for batches; what it computes is a hash of what a token sees.

It refuses what llama.cpp's llama_batch_allocr refuses: gaps in a sequence's positions, and sequences that
share a token of the pass without sharing everything before it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from edgedec.backends.llama_cpp.forward import LlamaCppForward
from edgedec.core.errors import BackendError
from edgedec.core.model_spec import ModelSpec
from edgedec.core.rows import FloatArray

SPEC = ModelSpec("fake", "fake", 100, 2, 4, 2, 16, 64, 256, head_k=64)


@dataclass
class Cell:
    token: int
    position: int
    sequences: set[int]


class FakeLlama:
    """Behaves as ``LlamaCpp`` does. ``fails``: raise in the next pass, after half of it was done."""

    def __init__(self, cells: int, *, rewinds: bool = True) -> None:
        self._size = cells
        self.rewinds = rewinds
        self.cells: list[Cell] = []
        self.fails = False
        self.passes: list[int] = []
        """Tokens of each pass."""

    def decode(
        self,
        tokens: Sequence[int],
        positions: Sequence[int],
        sequences: Sequence[Sequence[int]],
        wanted: Sequence[int],
    ) -> FloatArray:
        assert len(tokens) == len(positions) == len(sequences)
        self.passes.append(len(tokens))
        rows = {}
        for index, (token, position, members) in enumerate(zip(tokens, positions, sequences, strict=True)):
            if self.fails and 2 * index >= len(tokens):
                raise BackendError("the fake was told to fail")
            seen = [self._sequence(sequence) for sequence in members]
            assert seen, "a token belongs to some sequence"
            assert all(cells == seen[0] for cells in seen), "coupled sequences have diverged"
            assert [cell.position for cell in seen[0]] == list(range(position)), "positions are consecutive"
            self.cells.append(Cell(token, position, set(members)))
            assert len(self.cells) <= self._size, "the cache is full"
            rows[index] = _logits([*(cell.token for cell in seen[0]), token])
        return np.array([rows[index] for index in wanted], dtype=np.float32).reshape(-1, SPEC.vocab_size)

    def copy(self, source: int, target: int) -> None:
        for cell in self._sequence(source):
            cell.sequences.add(target)

    def keep(self, sequence: int) -> None:
        self.cells = self._sequence(sequence)
        for cell in self.cells:
            cell.sequences = {sequence}

    def cut(self, sequence: int, length: int) -> bool:
        if not self.rewinds and 0 < length < len(self._sequence(sequence)):
            return False
        for cell in self.cells:
            if cell.position >= length:
                cell.sequences.discard(sequence)
        self.cells = [cell for cell in self.cells if cell.sequences]
        return True

    def clear(self) -> None:
        self.cells = []

    def nbytes(self) -> dict[str, int]:
        return {"weights": 1, "kv_cache": 256 * self._size, "scratch": 1}

    def _sequence(self, sequence: int) -> list[Cell]:
        return sorted((c for c in self.cells if sequence in c.sequences), key=lambda c: c.position)


def _logits(history: Sequence[int]) -> FloatArray:
    seed = int.from_bytes(hashlib.sha256(repr(list(history)).encode()).digest()[:8])
    return np.random.default_rng(seed).normal(0, 3, SPEC.vocab_size).astype(np.float32)


def fake_llama(capacity: int, *, rewinds: bool = True) -> LlamaCppForward:
    """The backend over a fresh fake."""
    return LlamaCppForward(FakeLlama(capacity, rewinds=rewinds), SPEC, capacity)
