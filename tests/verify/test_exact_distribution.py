"""The rules keep the target's distribution: checked by enumerating every outcome on small vocabularies."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from edgedec.core.tree import DraftTree
from edgedec.decode.records import Verdict
from tests.reference.verification import (
    Chance,
    Distributions,
    k_seq,
    recursive_rejection,
    residual,
    speculative_sampling,
)
from tests.verify.support import (
    Context,
    Model,
    after,
    completed,
    distance,
    draft_chain,
    draft_chains,
    draft_without_replacement,
    exact_distribution,
    plain,
    random_model,
)

Rule = Callable[[DraftTree, Distributions, Distributions, Chance], Verdict]
Drafting = Callable[[Model, Chance], DraftTree]

RULES: dict[str, tuple[Rule, Drafting]] = {
    "chain of 1": (speculative_sampling, lambda q, chance: draft_chain(q, 1, chance)),
    "chain of 2": (speculative_sampling, lambda q, chance: draft_chain(q, 2, chance)),
    "2 siblings": (recursive_rejection, lambda q, chance: draft_without_replacement(q, (2,), chance)),
    "3 siblings": (recursive_rejection, lambda q, chance: draft_without_replacement(q, (3,), chance)),
    "tree of 2 x 1": (recursive_rejection, lambda q, chance: draft_without_replacement(q, (2, 1), chance)),
    "2 candidates": (k_seq, lambda q, chance: draft_chains(q, 2, 1, chance)),
    "2 chains": (k_seq, lambda q, chance: draft_chains(q, 2, 2, chance)),
    "3 candidates": (k_seq, lambda q, chance: draft_chains(q, 3, 1, chance)),
}
"""Each rule with drafts of the kind that it is for."""

P = random_model(1, 3)
PAIRS: dict[str, tuple[Model, Model]] = {
    "unrelated": (P, random_model(2, 3)),
    "equal": (P, P),
    "peaked target": (random_model(3, 3, sharpness=6.0), random_model(4, 3)),
    "peaked draft": (P, random_model(5, 3, sharpness=6.0)),
    "draft misses a token": (P, random_model(6, 3, missing=(2,))),
    "target misses a token": (random_model(7, 3, missing=(0,)), random_model(8, 3)),
    "disjoint": (random_model(9, 3, missing=(0, 1)), random_model(10, 3, missing=(2,))),
}


def speculated(rule: Rule, drafting: Drafting, p: Model, q: Model) -> Callable[[Chance], Context]:
    def procedure(chance: Chance) -> Context:
        tree = drafting(q, chance)
        return completed(rule(tree, after(p, tree), after(q, tree), chance), p, 3, chance)

    return procedure


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("name", RULES)
def test_the_next_three_tokens_have_the_targets_distribution(name: str, pair: str) -> None:
    p, q = PAIRS[pair]
    distribution = exact_distribution(speculated(*RULES[name], p, q))
    assert sum(distribution.values()) == pytest.approx(1.0, abs=1e-12)
    assert distance(distribution, exact_distribution(plain(p, 3))) < 1e-12


def wrong_residual(tree: DraftTree, target: Distributions, draft: Distributions, chance: Chance) -> Verdict:
    """Negative control: draws from p, not from what is left of it."""
    for node, token in enumerate(tree.tokens):
        if not chance.accept(float(target(node - 1)[token] / draft(node - 1)[token])):
            return Verdict(tuple(range(node)), (*tree.tokens[:node], chance.pick(target(node - 1))))
    return Verdict(tuple(range(len(tree))), (*tree.tokens, chance.pick(target(len(tree) - 1))))


def draft_kept(tree: DraftTree, target: Distributions, draft: Distributions, chance: Chance) -> Verdict:
    """Negative control: q keeps a rejected sibling's mass."""
    p, q = target(-1), draft(-1)
    for child in tree.children(-1):
        token = tree.tokens[child]
        if chance.accept(float(p[token] / q[token])):
            return Verdict((child,), (token,))
        p = residual(p, q)
    return Verdict((), (chance.pick(p),))


def greedy_about_rho(tree: DraftTree, target: Distributions, draft: Distributions, chance: Chance) -> Verdict:
    """Negative control: candidates are accepted as if there were one."""
    p, q = target(-1), draft(-1)
    for child in tree.children(-1):
        if chance.accept(float(p[tree.tokens[child]] / q[tree.tokens[child]])):
            return Verdict((child,), (tree.tokens[child],))
    return Verdict((), (chance.pick(residual(p, q)),))


@pytest.mark.parametrize(
    ("rule", "like"),
    [(wrong_residual, "chain of 2"), (draft_kept, "2 siblings"), (greedy_about_rho, "3 candidates")],
)
def test_a_wrong_rule_is_caught(rule: Rule, like: str) -> None:
    p, q = PAIRS["unrelated"]
    distribution = exact_distribution(speculated(rule, RULES[like][1], p, q))
    assert distance(distribution, exact_distribution(plain(p, 3))) > 0.01


def acceptance(rule: Rule, drafting: Drafting, p: Model, q: Model) -> float:
    """How often the first drafted token is accepted."""

    def procedure(chance: Chance) -> bool:
        tree = drafting(q, chance)
        return len(rule(tree, after(p, tree), after(q, tree), chance).path) > 0

    return exact_distribution(procedure)[True]


def test_a_chain_is_accepted_as_often_as_theory_says() -> None:
    p, q = PAIRS["unrelated"]
    overlap = float(np.minimum(p(()), q(())).sum())
    assert acceptance(*RULES["chain of 1"], p, q) == pytest.approx(overlap, abs=1e-12)


def test_more_candidates_are_accepted_more_often() -> None:
    p, q = PAIRS["unrelated"]
    one = acceptance(*RULES["chain of 1"], p, q)
    two = acceptance(*RULES["2 candidates"], p, q)
    assert one < two < acceptance(*RULES["3 candidates"], p, q)
    assert one < acceptance(*RULES["2 siblings"], p, q)
    assert acceptance(*RULES["3 siblings"], p, q) == pytest.approx(1.0)


def test_a_tree_that_branches_is_no_chain() -> None:
    tree = DraftTree((1, 2), (-1, -1), (0.5, 0.5), ("a", "a"))
    with pytest.raises(ValueError, match="branches"):
        speculative_sampling(tree, after(P, tree), after(P, tree), None)  # type: ignore[arg-type]


def test_siblings_without_replacement_differ() -> None:
    tree = DraftTree((1, 1), (-1, -1), (0.5, 0.5), ("a", "a"))
    with pytest.raises(ValueError, match="repeat"):
        recursive_rejection(tree, after(P, tree), after(P, tree), None)  # type: ignore[arg-type]
