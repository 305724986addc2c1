"""Speculative sampling of a chain (Leviathan et al. 2023; Chen et al. 2023)."""

from __future__ import annotations

from edgedec.core.tree import ROOT, DraftTree
from edgedec.decode.records import Verdict
from tests.reference.verification.chance import Chance
from tests.reference.verification.distributions import Distributions, residual


def speculative_sampling(
    tree: DraftTree, target: Distributions, draft: Distributions, chance: Chance
) -> Verdict:
    """Accept token x with probability min(1, p(x) / q(x)); on rejection draw from norm(max(p - q, 0)).

    Each token of the chain must have been drawn from ``draft`` after its parent. The tokens returned have
    the distribution of the target whatever q is, zeros included. Raises ValueError when the tree branches.
    """
    if tree.parents != tuple(range(ROOT, len(tree) - 1)):
        raise ValueError("speculative sampling verifies a chain; this tree branches")
    for node, token in enumerate(tree.tokens):
        p, q = target(node - 1), draft(node - 1)
        if not chance.accept(float(p[token] / q[token])):
            return Verdict(tuple(range(node)), (*tree.tokens[:node], chance.pick(residual(p, q))))
    last = chance.pick(target(len(tree) - 1))
    return Verdict(tuple(range(len(tree))), (*tree.tokens, last))
