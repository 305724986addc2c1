"""How much of a draft is worth feeding."""

from __future__ import annotations

from edgedec.control.costs import CostCurve
from edgedec.core.tree import ROOT, DraftTree


def planned(tree: DraftTree, costs: CostCurve, *, waiting: int = 1) -> int:
    """Number of nodes, from the front of ``tree``, that gives the most committed tokens per second.

    A pass over ``waiting`` committed tokens and n drafted ones commits one token and each drafted one with
    the probability of its path; it costs what the curve says. Each prefix of ``tree`` must be the best tree
    of its size, as ``merged`` makes it. 0 means: do not speculate.
    """
    reach: list[float] = []
    expected, best, chosen = 1.0, 1.0 / costs.seconds(min(waiting, costs.longest)), 0
    most = min(len(tree), costs.longest - waiting)
    for node in range(most):
        parent = tree.parents[node]
        reach.append(tree.probs[node] * (1.0 if parent == ROOT else reach[parent]))
        expected += reach[node]
        rate = expected / costs.seconds(waiting + node + 1)
        if rate > best:
            best, chosen = rate, node + 1
    return chosen
