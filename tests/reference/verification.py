"""Verification by equality: a drafted token is the one that plain decoding would commit, or it is not."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from edgedec.core.tree import ROOT, DraftTree
from edgedec.decode.records import Verdict

Choose = Callable[[int, Sequence[int]], int]
"""The target's token after a node (``ROOT``: the last committed token), given those accepted so far."""


def keyed(tree: DraftTree, choose: Choose) -> Verdict:
    """Follow the target's own tokens down the tree as far as they were drafted.

    ``choose`` is asked for the root and for each accepted node, never for any other.
    """
    path: list[int] = []
    tokens: list[int] = []
    node: int | None = ROOT
    while node is not None:
        tokens.append(choose(node, tokens))
        node = tree.child(node, tokens[-1])
        if node is not None:
            path.append(node)
    return Verdict(tuple(path), tuple(tokens))


def until(verdict: Verdict, stop_ids: Collection[int], most: int) -> Verdict:
    """Cut behind the first token that is in ``stop_ids``, and to at most ``most`` tokens."""
    ends = (at for at, token in enumerate(verdict.tokens, 1) if token in stop_ids)
    count = min(next(ends, most), most)
    return Verdict(verdict.path[:count], verdict.tokens[:count])
