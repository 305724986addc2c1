"""Token recycling: what the target thought of last time after this token (Luo et al. 2024).

Every pass answers every token fed with its most likely successors, rejected drafts included. A table keeps
the latest answer per token, and a tree is read off it.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

import numpy as np

from edgedec.core.tree import ROOT, DraftTree
from edgedec.core.types import HeadRows

_UNKNOWN = -1


class Recycling:
    """Drafts successors of successors. Keeps ``width`` of them per token: 4 bytes each."""

    name = "recycling"

    def __init__(self, vocab_size: int, width: int = 4) -> None:
        self._successors = np.full((vocab_size, width), _UNKNOWN, dtype=np.int32)
        self._last = _UNKNOWN
        # How often the token of each rank followed; begins with what text usually shows.
        self._hits = np.array([8.0 * 0.5**rank for rank in range(1, width + 1)])
        self._trials = 8.0

    def begin(self, tokens: Sequence[int], kept: int) -> None:
        self._last = tokens[-1] if tokens else _UNKNOWN

    def commit(self, tokens: Sequence[int]) -> None:
        for token in tokens:
            if self._last != _UNKNOWN and self._successors[self._last, 0] != _UNKNOWN:
                self._trials += 1.0
                self._hits += self._successors[self._last] == token
            self._last = token
        if self._trials > 512.0:  # so that the rates follow the text
            self._trials *= 0.5
            self._hits *= 0.5

    def learn(self, fed: Sequence[int], rows: HeadRows) -> None:
        if len(rows) == len(fed):
            width = min(self._successors.shape[1], rows.ids.shape[1])
            self._successors[list(fed), :width] = rows.ids[:, :width]

    def propose(self, limit: int, floor: float = 0.0) -> DraftTree:
        rates = (self._hits / self._trials).tolist()
        tokens: list[int] = []
        parents: list[int] = []
        probs: list[float] = []
        heap: list[tuple[float, int, int, int, int]] = []

        def offer(token: int, index: int, reach: float) -> None:
            for rank, successor in enumerate(self._successors[token].tolist()):
                if successor != _UNKNOWN and reach * rates[rank] > floor:
                    heapq.heappush(heap, (-reach * rates[rank], index, rank, successor, index))

        if self._last != _UNKNOWN:
            offer(self._last, ROOT, 1.0)
        while heap and len(tokens) < limit:
            negative, _, rank, token, parent = heapq.heappop(heap)
            tokens.append(token)
            parents.append(parent)
            probs.append(rates[rank])
            offer(token, len(tokens) - 1, -negative)
        return DraftTree(tuple(tokens), tuple(parents), tuple(probs), (self.name,) * len(tokens))

    def nbytes(self) -> int:
        return int(self._successors.nbytes)
