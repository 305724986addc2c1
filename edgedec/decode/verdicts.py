"""The verdict on a draft: which of its tokens the target says, and the target's own next one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from edgedec.core.rows import HeadRows
from edgedec.core.tree import DraftTree
from edgedec.sampling import SamplingParams, draw, law
from edgedec.verify import KEYED, SeededChance, Verdict, classical, keyed


def verdict_on(
    tree: DraftTree,
    head: HeadRows,
    params: SamplingParams,
    committed: Sequence[int],
    rule: str | None,
    vocab_size: int,
) -> Verdict:
    """Verify ``tree``, whose node i was answered by ``head`` row i + 1; row 0 follows ``committed``.

    ``rule``: one of ``verify.RULES``, or None or "keyed" for equality of tokens.
    """
    if rule in (None, KEYED) or not len(tree):
        penalised = params.repetition_penalty != 1.0  # else nothing reads the history

        def choose(node: int, accepted: Sequence[int]) -> int:
            history = [*committed, *accepted] if penalised else committed
            return draw(head, node + 1, params, len(committed) + len(accepted), history)

        return keyed(tree, choose)

    def target(node: int) -> NDArray[np.float64]:
        history = [*committed, *(tree.tokens[step] for step in tree.path(node))]
        return law(head, node + 1, params, history, vocab_size)

    return classical(rule, tree, target, SeededChance(params.seed, len(committed)))
