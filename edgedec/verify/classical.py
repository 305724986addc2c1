"""The classical rules by name, for an engine that verifies by one of them instead of ``keyed``.

They preserve the distribution of plain decoding, not the exact tokens: those depend on the draft.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from edgedec.core.tree import DraftTree, Laws
from edgedec.verify.chance import Chance
from edgedec.verify.k_seq import k_seq
from edgedec.verify.keyed import keyed
from edgedec.verify.rejection import speculative_sampling
from edgedec.verify.verdict import Verdict
from edgedec.verify.without_replacement import recursive_rejection

KEYED, _REJECTION, _RECURSIVE, _K_SEQ = "keyed", "rejection", "recursive", "k-seq"

RULES: Mapping[str, Callable[[DraftTree, Laws, Laws, Chance], Verdict]] = {
    _REJECTION: speculative_sampling,
    _RECURSIVE: recursive_rejection,
    _K_SEQ: k_seq,
}
"""Name -> rule."""


def fitted(rule: str, tree: DraftTree) -> DraftTree:
    """Return the part of a draft that ``rule`` can take: all, or the trunk for rules without siblings.

    Siblings are one thing to ``recursive``, different tokens, and another to ``k-seq``, independent draws.
    Tokens that were not drawn at all are no independent draws, so k-SEQ too takes a chain of them.
    """
    drawn = tree.laws is not None
    return tree if rule in (KEYED, _RECURSIVE) or (drawn and rule == _K_SEQ) else tree.trunk()


def classical(rule: str, tree: DraftTree, target: Laws, chance: Chance) -> Verdict:
    """The verdict of the rule in ``RULES`` of that name on a fitted draft.

    Tokens that were not drawn have laws with one token each. Testing them, one sibling after the other, then
    is the same as to draw from the target and look whether that was drafted.
    """
    if tree.laws is None:
        return keyed(tree, lambda node, _: chance.pick(target(node)))
    return RULES[rule](tree, target, tree.laws, chance)
