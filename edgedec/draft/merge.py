"""One tree out of several drafters' trees."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence

from edgedec.core.tree import ROOT, DraftTree

Believe = Callable[[str, float], float]
"""How probable a token is, given who drafted it and what probability the drafter gave it."""


def merged(trees: Sequence[DraftTree], limit: int, believe: Believe) -> DraftTree:
    """The ``limit`` nodes with the most probable paths of all trees, the most probable first.

    Nodes with the same path are one node; it gets the best probability that was believed of it, and the
    source of that. A prefix of the result, of any length, is the best tree of that many nodes.
    """
    best: dict[tuple[int, int], tuple[float, str]] = {}
    children: dict[int, list[tuple[int, int]]] = {}
    index: dict[tuple[int, int], int] = {}
    for tree in trees:
        places = [ROOT] * len(tree)
        for node, (token, parent, prob, source) in enumerate(
            zip(tree.tokens, tree.parents, tree.probs, tree.sources, strict=True)
        ):
            above = ROOT if parent == ROOT else places[parent]
            key = (above, token)
            if key not in index:
                index[key] = len(index)
                children.setdefault(above, []).append(key)
            places[node] = index[key]
            believed = believe(source, prob)
            if believed > best.get(key, (0.0, ""))[0]:
                best[key] = (believed, source)
    return _most_probable(best, children, index, limit)


def _most_probable(
    best: dict[tuple[int, int], tuple[float, str]],
    children: dict[int, list[tuple[int, int]]],
    index: dict[tuple[int, int], int],
    limit: int,
) -> DraftTree:
    tokens: list[int] = []
    parents: list[int] = []
    probs: list[float] = []
    sources: list[str] = []
    heap: list[tuple[float, int, int, tuple[int, int]]] = []

    def offer(place: int, node: int, reach: float) -> None:
        for key in children.get(place, ()):
            if key in best:
                heapq.heappush(heap, (-reach * best[key][0], index[key], node, key))

    offer(ROOT, ROOT, 1.0)
    while heap and len(tokens) < limit:
        negative, place, parent, key = heapq.heappop(heap)
        tokens.append(key[1])
        parents.append(parent)
        probs.append(best[key][0])
        sources.append(best[key][1])
        offer(place, len(tokens) - 1, -negative)
    return DraftTree(tuple(tokens), tuple(parents), tuple(probs), tuple(sources))
