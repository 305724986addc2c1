"""k-SEQ: sequential selection among independent drafts (SpecTr, Sun et al. 2023)."""

from __future__ import annotations

import numpy as np

from edgedec.core.tree import ROOT, DraftTree
from edgedec.decode.records import Verdict
from tests.reference.verification.chance import Chance
from tests.reference.verification.distributions import F64, Distributions, normalised


def k_seq(tree: DraftTree, target: Distributions, draft: Distributions, chance: Chance) -> Verdict:
    """Accept the first of k candidates with probability min(1, p(x) / (rho q(x))) each.

    Siblings must be independent draws from ``draft`` after their parent, repeated tokens included (k drafted
    chains side by side). An accepted token is followed by the children of all candidates with that token:
    they share its context, so they are independent draws too.
    """
    tokens: list[int] = []
    nodes = [ROOT]
    while True:
        p = target(nodes[0])
        candidates = [child for node in nodes for child in tree.children(node)]
        if not candidates:
            return Verdict(tree.path(nodes[0]), (*tokens, chance.pick(p)))
        q = draft(nodes[0])
        rho = optimal_rho(p, q, len(candidates))
        token = _first_accepted(tree, candidates, p, q, rho, chance)
        if token is None:
            return Verdict(tree.path(nodes[0]), (*tokens, chance.pick(_left(p, q, rho, len(candidates)))))
        nodes = [child for child in candidates if tree.tokens[child] == token]
        tokens.append(token)


def optimal_rho(p: F64, q: F64, k: int) -> float:
    """The rho in [1, k] with 1 - (1 - beta)^k = rho * beta, where beta(rho) = sum min(q, p / rho).

    At that rho the k candidates together accept a token as often as its residual allows; found by bisection,
    rounded up, since a larger rho is exact too and a smaller one is not.
    """
    low, high = 1.0, float(k)
    for _ in range(60):
        middle = 0.5 * (low + high)
        beta = float(np.minimum(q, p / middle).sum())
        if 1.0 - (1.0 - beta) ** k <= middle * beta:
            high = middle
        else:
            low = middle
    return high


def _first_accepted(
    tree: DraftTree, candidates: list[int], p: F64, q: F64, rho: float, chance: Chance
) -> int | None:
    for child in candidates:
        token = tree.tokens[child]
        if chance.accept(float(p[token] / (rho * q[token]))):
            return token
    return None


def _left(p: F64, q: F64, rho: float, k: int) -> F64:
    """Distribution after all k candidates were rejected: p less the accepted mass, normalised."""
    taken = np.minimum(q, p / rho)
    beta = float(taken.sum())
    if beta <= 0.0:
        return p
    left = normalised(np.maximum(p - taken * (1.0 - (1.0 - beta) ** k) / beta, 0.0))
    return p if left is None else left
