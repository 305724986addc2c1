"""One tree out of several drafters' trees."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Sequence

from edgedec.core.tree import ROOT, DraftTree

Calibrate = Callable[[str, float], float]
"""The probability of a token, given the drafter that proposed it and the probability that it claims."""


def merged(
    trees: Sequence[DraftTree], limit: int, calibrate: Calibrate, stop_ids: Collection[int] = ()
) -> DraftTree:
    """The ``limit`` nodes with the most probable paths of all trees, the most probable first.

    Nodes with the same path are one node; it gets the best calibrated probability and the source of that.
    A prefix of the result, of any length, is the best tree of that many nodes. Nothing follows a token of
    ``stop_ids``, which ends the reply.
    """
    tokens: list[int] = []
    probs: list[float] = []
    sources: list[str] = []
    children: list[list[int]] = [[]]  # of the root, then of each place
    index: dict[tuple[int, int], int] = {}
    for tree in trees:
        places: list[int] = []
        for token, parent, prob, source in zip(
            tree.tokens, tree.parents, tree.probs, tree.sources, strict=True
        ):
            above = ROOT if parent == ROOT else places[parent]
            calibrated = calibrate(source, prob)
            place = index.setdefault((above, token), len(tokens))
            places.append(place)
            if place == len(tokens):
                tokens.append(token)
                probs.append(calibrated)
                sources.append(source)
                children[above + 1].append(place)
                children.append([])
            elif calibrated > probs[place]:
                probs[place], sources[place] = calibrated, source
    for place, token in enumerate(tokens if stop_ids else ()):
        if token in stop_ids:
            children[place + 1] = []
    chosen, parents = _most_probable(probs, children, limit)
    return DraftTree(
        tuple([tokens[place] for place in chosen]),
        tuple(parents),
        tuple([probs[place] for place in chosen]),
        tuple([sources[place] for place in chosen]),
    )


def _most_probable(probs: list[float], children: list[list[int]], limit: int) -> tuple[list[int], list[int]]:
    """Places in the order of the probabilities of their paths, and where each one's parent is in it."""
    chosen: list[int] = []
    parents: list[int] = []
    heap = [(-probs[place], place, ROOT) for place in children[0] if probs[place] > 0.0]
    heapq.heapify(heap)
    while heap and len(chosen) < limit:
        negative, place, parent = heapq.heappop(heap)
        for child in children[place + 1]:
            if probs[child] > 0.0:
                heapq.heappush(heap, (negative * probs[child], child, len(chosen)))
        chosen.append(place)
        parents.append(parent)
    return chosen, parents
