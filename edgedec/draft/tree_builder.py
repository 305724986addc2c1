"""A draft in the making: nodes with the probability of their whole path, of which the best become a tree."""

from __future__ import annotations

from edgedec.core.tree import ROOT, DraftTree


class TreeBuilder:
    """Nodes, parents before children. ``reach`` is the probability of all tokens down to a node."""

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self.parents: list[int] = []
        self.reach: list[float] = []
        self._places: dict[tuple[int, int], int] = {}

    def __len__(self) -> int:
        return len(self.tokens)

    def add(self, token: int, parent: int, reach: float) -> int:
        """The index of ``token`` below ``parent``; to one that is there already ``reach`` is added."""
        place = self._places.setdefault((parent, token), len(self.tokens))
        if place == len(self.tokens):
            self.tokens.append(token)
            self.parents.append(parent)
            self.reach.append(0.0)
        self.reach[place] += reach
        return place

    def path(self, node: int) -> list[int]:
        """Nodes from the first token down to ``node``."""
        nodes: list[int] = []
        while node != ROOT:
            nodes.append(node)
            node = self.parents[node]
        nodes.reverse()
        return nodes

    def spelled(self, node: int) -> list[int]:
        """Tokens from the first one down to ``node``; none for the root."""
        return [self.tokens[above] for above in self.path(node)]

    def ends(self) -> list[float]:
        """For each node the probability that it is the last one that was drafted rightly."""
        rest = list(self.reach)
        for node, parent in enumerate(self.parents):
            if parent != ROOT:
                rest[parent] -= self.reach[node]
        return rest

    def best(self, limit: int, floor: float, source: str) -> DraftTree:
        """The ``limit`` nodes with the most probable paths, none below ``floor``, as a tree.

        A path is at most as probable as its beginning, so no node comes without its parent.
        """
        order = sorted(range(len(self)), key=lambda node: (-self.reach[node], node))[:limit]
        chosen = [node for node in order if self.reach[node] >= floor]
        place = {node: at for at, node in enumerate(chosen)} | {ROOT: ROOT}
        return DraftTree(
            tuple(self.tokens[node] for node in chosen),
            tuple(place[self.parents[node]] for node in chosen),
            tuple(min(self._prob(node), 1.0) for node in chosen),
            (source,) * len(chosen),
        )

    def _prob(self, node: int) -> float:
        parent = self.parents[node]
        return self.reach[node] / (1.0 if parent == ROOT else self.reach[parent])
