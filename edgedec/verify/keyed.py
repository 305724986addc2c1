"""Verification by equality: the default.

With position-keyed noise (edgedec.sampling.noise) the token at a position is a function of the target's
logits, the seed and the position: it is known which token plain decoding would commit, and a drafted one is
it or is not. Output with and without speculation is the same tokens, at every temperature; greedy decoding is
the case without noise. Drafts may come from anywhere, no probabilities are needed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from edgedec.core.tree import ROOT, DraftTree
from edgedec.verify.verdict import Verdict

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
