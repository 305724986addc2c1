"""Weighted continuations, merged where they begin alike, and the most likely part of them as a tree."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field

from edgedec.core.tree import ROOT, DraftTree


@dataclass(slots=True)
class _Node:
    weight: float = 0.0
    children: dict[int, _Node] = field(default_factory=dict)


class Trie:
    """Continuations of the committed sequence; a node's probability is its share of its parent's weight.

    Of weight that ended at the parent, or never got there, ``doubt`` stands in: a continuation seen once
    is not certain.
    """

    def __init__(self, source: str, doubt: float = 1.0) -> None:
        self._root = _Node()
        self._source = source
        self._doubt = doubt

    def insert(self, tokens: Sequence[int], weight: float) -> None:
        node = self._root
        node.weight += weight
        for token in tokens:
            node = node.children.setdefault(token, _Node())
            node.weight += weight

    def best(self, limit: int, floor: float = 0.0) -> DraftTree:
        """The ``limit`` nodes with the most probable paths, none below ``floor``: parents first, never
        without them.
        """
        tokens: list[int] = []
        parents: list[int] = []
        probs: list[float] = []
        heap: list[tuple[float, int, int, float, int, _Node]] = []
        order = 0

        def offer(node: _Node, index: int, reach: float) -> None:
            nonlocal order
            for token, child in node.children.items():
                prob = child.weight / (node.weight + self._doubt)
                if reach * prob >= floor:
                    heapq.heappush(heap, (-reach * prob, order, token, prob, index, child))
                    order += 1

        offer(self._root, ROOT, 1.0)
        while heap and len(tokens) < limit:
            negative, _, token, prob, parent, node = heapq.heappop(heap)
            tokens.append(token)
            parents.append(parent)
            probs.append(prob)
            offer(node, len(tokens) - 1, -negative)
        return DraftTree(tuple(tokens), tuple(parents), tuple(probs), (self._source,) * len(tokens))
