"""The verdict on a draft: which of its tokens the target says, and the target's own next one."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from edgedec.core.rows import HeadRows
from edgedec.core.tree import DraftTree
from edgedec.decode.records import ReplyPlan
from edgedec.sampling import draw, law
from edgedec.verify import KEYED, SeededChance, Verdict, classical, keyed


def verdict_on(
    tree: DraftTree, head: HeadRows, reply: ReplyPlan, position: int, rule: str | None, vocab_size: int
) -> Verdict:
    """Verify ``tree``, whose node i was answered by ``head`` row i + 1; row 0 says token ``position``.

    ``rule``: one of ``verify.RULES``, or None or "keyed" for equality of tokens.
    """
    params, occurred = reply.params, reply.occurred
    if rule in (None, KEYED) or not len(tree):
        return keyed(
            tree,
            lambda node, accepted: draw(
                head, node + 1, params, position + len(accepted), occurred.after(accepted)
            ),
        )

    def target(node: int) -> NDArray[np.float64]:
        history = occurred.after([tree.tokens[step] for step in tree.path(node)])
        return law(head, node + 1, params, history, vocab_size)

    return classical(rule, tree, target, SeededChance(params.seed, position))
