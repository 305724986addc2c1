"""Drafts under a grammar: what it permits of them, and what it has to say itself.

A draft changes no token. Tokens that a grammar does not permit could only be rejected, and those that it
forces are accepted for certain.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING

from edgedec.core.errors import GrammarError
from edgedec.core.tree import ROOT, DraftTree

if TYPE_CHECKING:
    from edgedec.grammar import Constraint

GRAMMAR = "grammar"
"""The source of forced tokens."""


def permitted(constraint: Constraint, tree: DraftTree) -> list[int]:
    """Return the nodes of ``tree`` that the reply may go through, in the same order."""
    kept: list[int] = []
    path: list[int] = []
    waiting = tree.children(ROOT)[::-1]
    try:
        while waiting:
            node = waiting.pop()
            depth = 0 if tree.parents[node] == ROOT else path.index(tree.parents[node]) + 1
            constraint.back(len(path) - depth)
            del path[depth:]
            if constraint.advance(tree.tokens[node]):
                path.append(node)
                kept.append(node)
                waiting += tree.children(node)[::-1]
    finally:
        constraint.back(len(path))
    return sorted(kept)


class Ahead:
    """A walk of a grammar along tokens that may still be taken back; it returns at the end of the block."""

    def __init__(self, grammar: Constraint) -> None:
        self._grammar = grammar
        self._count = 0

    def follow(self, tokens: Sequence[int]) -> None:
        """Go to behind ``tokens``, which begin with those of the call before, or are some of these.

        Raises GrammarError where the grammar cannot tell what follows a token that it permitted.
        """
        if len(tokens) < self._count:
            self._grammar.back(self._count - len(tokens))
            self._count = len(tokens)
        for token in tokens[self._count :]:
            go_on(self._grammar, token)
            self._count += 1

    def __enter__(self) -> Ahead:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._grammar.back(self._count)


def go_on(grammar: Constraint, token: int) -> None:
    """Let ``grammar`` go on behind a token that it permitted. Raises GrammarError where it cannot."""
    if not grammar.advance(token):
        raise GrammarError("the grammar is too complex to go on with", hint="use one with fewer choices")
