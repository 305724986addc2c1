"""Drafts under a grammar: what it permits of them, and what it has to say itself.

A draft changes no token. Tokens that a grammar does not permit could only be rejected, and those that it
forces are accepted for certain.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType

from edgedec.control import DraftAnswer, Query
from edgedec.core.errors import GrammarError
from edgedec.core.tree import EMPTY, ROOT, DraftTree, chain
from edgedec.grammar.constraint import Constraint

GRAMMAR = "grammar"
"""The source of forced tokens."""


def forced_draft(constraint: Constraint | None, room: int) -> DraftTree:
    """Return at most ``room`` forced tokens as a draft."""
    forced = constraint.forced()[: max(room, 0)] if constraint else []
    return chain(forced, [1.0] * len(forced), GRAMMAR) if forced else EMPTY


def permitted(constraint: Constraint, tree: DraftTree) -> DraftTree:
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
    return tree if len(kept) == len(tree) else _only(tree, sorted(kept))


def permitted_only(
    constraint: Constraint, query: Callable[[Query], DraftAnswer | None]
) -> Callable[[Query], DraftAnswer | None]:
    """Return ``query`` with the permitted part of each answer."""

    def ask(one: Query) -> DraftAnswer | None:
        if (answer := query(one)) is None:
            return None
        tree = permitted(constraint, answer.tree)
        return answer._replace(tree=tree, peeked=_peeked(answer, tree))

    return ask


def _peeked(answer: DraftAnswer, tree: DraftTree) -> int:
    """Count the tokens of the pass, of those that the query computed parts of, that are still ahead."""
    node, count = ROOT, 1
    for token in answer.tree.tokens[: max(answer.peeked - 1, 0)]:
        following = tree.child(node, token)
        if following is None:
            break
        node, count = following, count + 1
    return min(count, answer.peeked)


def _only(tree: DraftTree, nodes: list[int]) -> DraftTree:
    place = {node: at for at, node in enumerate(nodes)} | {ROOT: ROOT}
    return DraftTree(
        tuple(tree.tokens[node] for node in nodes),
        tuple(place[tree.parents[node]] for node in nodes),
        tuple(tree.probs[node] for node in nodes),
        tuple(tree.sources[node] for node in nodes),
    )


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
