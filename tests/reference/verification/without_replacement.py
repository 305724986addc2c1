"""Recursive rejection of siblings drawn without replacement (RSD, Jeon et al. 2024)."""

from __future__ import annotations

from edgedec.core.tree import ROOT, DraftTree
from edgedec.decode.records import Verdict
from tests.reference.verification.chance import Chance
from tests.reference.verification.distributions import F64, Distributions, normalised, residual


def recursive_rejection(
    tree: DraftTree, target: Distributions, draft: Distributions, chance: Chance
) -> Verdict:
    """Test siblings in the order drawn, each against p and q without the mass of the rejected ones before it.

    Siblings must have been drawn from ``draft`` after their parent, one after the other without
    replacement. After a rejection p becomes norm(max(p - q, 0)), and q loses the token and is normalised:
    that is the distribution the next sibling was drawn from. Raises ValueError when siblings repeat a token.
    """
    node = ROOT
    while True:
        accepted, left = _among(tree, node, target(node), draft, chance)
        if accepted is None:
            path = tree.path(node)
            return Verdict(path, (*(tree.tokens[step] for step in path), chance.pick(left)))
        node = accepted


def _among(
    tree: DraftTree, node: int, p: F64, draft: Distributions, chance: Chance
) -> tuple[int | None, F64]:
    """The accepted child of ``node``, or None and the distribution to draw from instead."""
    children = tree.children(node)
    if not children:
        return None, p
    if len({tree.tokens[child] for child in children}) < len(children):
        raise ValueError("siblings drawn without replacement cannot repeat a token")
    q = draft(node)
    for child in children:
        token = tree.tokens[child]
        if chance.accept(float(p[token] / q[token])):
            return child, p
        p = residual(p, q)
        rest = q.copy()
        rest[token] = 0.0
        left = normalised(rest)
        if left is None:  # q had no other token: no sibling can follow
            break
        q = left
    return None, p
