"""A tree grown from the most probable path on: what drafters without a model of their own have in common."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from typing import TypeVar

from edgedec.core.tree import ROOT, DraftTree

State = TypeVar("State")


def best_first(
    start: State,
    following: Callable[[State], Iterable[tuple[int, float, State]]],
    *,
    limit: int,
    floor: float,
    source: str,
) -> DraftTree:
    """The ``limit`` nodes with the most probable paths above ``floor``, the most probable first.

    ``following`` gives what may come after a state, ``start`` for the root: tokens, their probabilities
    there, and the states that they lead to.
    """
    tokens: list[int] = []
    parents: list[int] = []
    probs: list[float] = []
    heap: list[tuple[float, int, int, int, float, State]] = []
    order = 0  # equals come out in the order they went in
    state, node, reach = start, ROOT, 1.0
    while True:
        for token, prob, after in following(state):
            if reach * prob > floor:
                heapq.heappush(heap, (-reach * prob, order, token, node, prob, after))
                order += 1
        if not heap or len(tokens) >= limit:
            return DraftTree(tuple(tokens), tuple(parents), tuple(probs), (source,) * len(tokens))
        negative, _, token, parent, prob, state = heapq.heappop(heap)
        node, reach = len(tokens), -negative
        tokens.append(token)
        parents.append(parent)
        probs.append(prob)
