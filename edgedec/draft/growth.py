"""The growth of one draft: a tree of likely tokens, the most probable of which are followed first."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from edgedec.core.rows import FloatArray, HeadRows
from edgedec.core.tree import ROOT
from edgedec.core_lib.choices import Choices
from edgedec.draft.tree_builder import TreeBuilder
from edgedec.sampling import DrawParams

LEAST_REACH = 0.1
"""Paths less probable than this are never followed: a step takes some hundredths of a pass of the target.
Entropy does not count. A head that has not learned much is unsure nearly everywhere, and often right.
"""
_CLOSE = 0.4
"""A node shares the pass of the first one if it is at least this probable beside it."""


class Growth(ABC):
    """One draft behind ``tokens``, of which ``start`` lie before the reply: nodes, and their states.

    ``answer``: what is predicted behind the last token, and the state for it.
    """

    beam: ClassVar[int] = 1
    """Most nodes that share a pass."""

    def __init__(
        self,
        tokens: Sequence[int],
        start: int,
        params: DrawParams,
        answer: tuple[HeadRows, FloatArray],
    ) -> None:
        self._position = len(tokens)
        self._choices = Choices(params, tokens, said=len(tokens) - start)
        self._tree = TreeBuilder()
        self._out: dict[int, FloatArray] = {ROOT: answer[1]}
        """The drafter's own output for each node that was fed."""
        self._open: set[int] = set()
        """Nodes that can be followed and were not."""
        self._grow(ROOT, answer[0], 0)

    def grown(self, limit: int, floor: float) -> TreeBuilder:
        """Follow the most probable nodes, until nothing that follows can be among the ``limit`` best."""
        reach = self._tree.reach
        while self._open:
            order = sorted(self._open, key=lambda node: (-reach[node], node))
            lead = reach[order[0]]
            if lead < floor or sum(one >= lead for one in reach) >= limit:
                break
            least = max(floor, _CLOSE * lead)
            if not self._feed([node for node in order[: self.beam] if reach[node] >= least]):
                break
        return self._tree

    @abstractmethod
    def _feed(self, chosen: list[int]) -> bool:
        """Compute what follows ``chosen`` and call ``_followed`` for each; False where there is no room."""

    def _followed(self, node: int, rows: HeadRows, row: int, out: FloatArray) -> None:
        """Note the output for a node, and the tokens that may follow it."""
        self._open.discard(node)
        self._out[node] = out
        self._grow(node, rows, row)

    def _grow(self, node: int, rows: HeadRows, row: int) -> None:
        path_tokens = [self._tree.tokens[above] for above in self._tree.path(node)]
        reach = 1.0 if node == ROOT else self._tree.reach[node]
        position = self._position + len(path_tokens)
        for token, prob in self._choices.find(rows, row, position, path_tokens):
            if reach * prob > 0.0:
                self._open.add(self._tree.add(token, node, reach * prob))
