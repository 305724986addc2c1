"""Structured output: what a reply has to be, and which tokens may come next for that.

``spec`` has the plain value that callers hand in, ``matcher`` the constraint that decoding asks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from edgedec.grammar.spec import GrammarChoice, GrammarSpec

if TYPE_CHECKING:
    from edgedec.core.ledger import Ledger
    from edgedec.core.model_spec import ModelSpec
    from edgedec.grammar.healing import Healing
    from edgedec.grammar.matcher import GrammarConstraint
    from edgedec.grammar.thought_limit import ThoughtLimit

    Constraint = GrammarConstraint | ThoughtLimit | Healing
    from edgedec.text.thought_walk import ThoughtWalk
    from edgedec.text.tokenizer import Tokenizer

__all__ = ["GrammarChoice", "GrammarSpec", "constraint_for"]


def constraint_for(
    spec: GrammarSpec, tokenizer: Tokenizer, model: ModelSpec, ledger: Ledger, tokens: Sequence[int] = ()
) -> GrammarConstraint:
    """Compile a grammar as ``matcher.constraint_for`` does, whose module is imported by the first one."""
    from edgedec.grammar import matcher

    return matcher.constraint_for(spec, tokenizer, model, ledger, tokens)


def limited(
    walk: ThoughtWalk, size: int, form: GrammarConstraint | None, tokens: Sequence[int]
) -> Constraint | None:
    """Return the constraint of a reply whose thinking part ends; ``form`` where there is no limit on it."""
    if not walk.closing:
        return form
    from edgedec.grammar.thought_limit import ThoughtLimit

    return ThoughtLimit(walk, size, form, tokens)
