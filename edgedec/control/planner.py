"""How much of a draft is worth feeding."""

from __future__ import annotations

from edgedec.control.costs import Costs
from edgedec.core.quick_dataclass import dataclass
from edgedec.core.tree import ROOT, DraftTree


@dataclass(frozen=True, slots=True)
class FeedPlan:
    """Feed the first ``nodes`` of a draft.

    ``accepted`` of them are expected to be accepted. ``gain`` is that, less the tokens that their time is
    worth elsewhere.
    """

    nodes: int = 0
    accepted: float = 0.0
    gain: float = 0.0


NOTHING = FeedPlan()


def feed_plan(
    tree: DraftTree,
    costs: Costs,
    *,
    rate: float = 0.0,
    verify_overhead: float = 0.0,
    spare: float | None = None,
) -> FeedPlan:
    """Choose how many nodes, from the front of ``tree``, make the most of the time they take.

    A drafted token is committed with the probability of its path. It is worth feeding while that exceeds what
    the time it adds to the pass brings elsewhere: ``rate``, in tokens per second, the average that decoding
    goes at (never less than plain decoding's). This maximises the average over unlike rounds; maximising
    each round's own quotient would feed too little where drafts are good.

    ``verify_overhead`` are seconds per drafted token outside the pass. No plan costs more than ``spare``
    seconds above a plain pass. Each prefix of ``tree`` must be the best tree of its size, as ``merged`` makes
    it. No nodes means: do not speculate.
    """
    plain = costs.plain
    rate = max(rate, 1.0 / plain)
    reach: list[float] = []
    expected, best = 0.0, NOTHING
    for node in range(min(len(tree), costs.longest - 1)):
        parent = tree.parents[node]
        reach.append(tree.probs[node] * (1.0 if parent == ROOT else reach[parent]))
        expected += reach[node]
        more = costs.seconds(node + 2) - plain + verify_overhead * (node + 1)
        if spare is not None and more > spare:
            break
        gain = expected - rate * more
        if gain > best.gain:
            best = FeedPlan(node + 1, expected, gain)
    return best


def least_reach(costs: Costs, limit: int, *, rate: float = 0.0, verify_overhead: float = 0.0) -> float:
    """The path probability below which no token of a draft of at most ``limit`` tokens can pay."""
    return max(rate, 1.0 / costs.plain) * (costs.least_slope(limit) + verify_overhead)
