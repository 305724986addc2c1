"""Every rule keeps the target's distribution by Pearson's chi-square test, which catches wrong rules.

Seeds are fixed. Cells are merged until 5 are expected; a distribution is rejected at p < 1e-4. ``-m slow``
repeats all of it with ten times the draws.
"""

from __future__ import annotations

import functools
import importlib
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pytest

from edgedec.core.rows import HeadRows
from edgedec.core.tree import DraftTree
from edgedec.decode.records import Verdict
from edgedec.sampling import DrawParams
from tests.fixtures.nightly import diagonal
from tests.reference.sampling import distribution, draw
from tests.reference.verification import (
    Chance,
    Distributions,
    k_seq,
    keyed,
    recursive_rejection,
    residual,
    speculative_sampling,
)
from tests.sampling import support as sampling
from tests.sampling.support import chi_square_p, head
from tests.verify.support import (
    F64,
    after,
    completed,
    draft_chain,
    draft_chains,
    draft_without_replacement,
)

REJECT = 1e-4
DRAWS = {"keyed": 250, "rejection": 500, "recursive": 500, "k-seq": 500}
"""Of two tokens each; a keyed draw takes longest."""
CONTROL = 1_000
Rule = Callable[[DraftTree, Distributions, Distributions, Chance], Verdict]


@dataclass(frozen=True)
class Pair:
    """What target and drafter say everywhere: logits, and the warpers that both go through."""

    target: tuple[float, ...]
    draft: tuple[float, ...]
    warp: DrawParams = DrawParams(temperature=1.0)  # noqa: RUF009
    trim: DrawParams | None = None
    """Warpers of the drafter, where they are others."""

    @functools.cached_property
    def p(self) -> F64:
        return warped(self.target, self.warp)

    @functools.cached_property
    def q(self) -> F64:
        return warped(self.draft, self.trim or self.warp)

    @functools.cached_property
    def rows(self) -> HeadRows:
        return head(np.array(self.target), 8, full=True)

    @functools.cached_property
    def expected(self) -> Mapping[int, float]:
        """By an independent implementation of the warpers."""
        return sampling.distribution(self.target, self.warp)


def warped(logits: tuple[float, ...], params: DrawParams) -> F64:
    return distribution(head(np.array(logits), 8, full=True), 0, params, [], len(logits))


def normal(seed: int, size: int, scale: float = 1.5) -> tuple[float, ...]:
    return tuple((np.random.default_rng(seed).normal(size=size) * scale).astype(np.float32).tolist())


def near(seed: int, size: int, far: float) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """A target, and a drafter that is like it but for some noise."""
    target = normal(seed, size)
    noise = normal(seed + 1_000, size, far)
    return target, tuple(float(np.float32(a + b)) for a, b in zip(target, noise, strict=True))


def only(ids: range, size: int) -> tuple[float, ...]:
    return tuple(0.3 * (i % 3) if i in ids else -np.inf for i in range(size))


PAIRS: dict[str, Pair] = {
    "plain": Pair(*near(1, 8, 1.0)),
    "close": Pair(*near(2, 12, 0.2)),
    "unrelated": Pair(normal(3, 10), normal(4, 10)),
    "opposed": Pair((0.0, 0.6, 1.2, 1.8), (1.8, 1.2, 0.6, 0.0)),
    "large": Pair(*near(5, 50, 1.0)),
    "cold": Pair(*near(6, 12, 1.0), DrawParams(temperature=0.4)),
    "hot": Pair(*near(7, 12, 1.0), DrawParams(temperature=2.5)),
    "lukewarm": Pair(*near(8, 30, 1.0), DrawParams(temperature=0.8)),
    "top-k 2": Pair(*near(9, 12, 1.0), DrawParams(temperature=1.0, top_k=2)),
    "top-k 6": Pair(*near(10, 20, 1.0), DrawParams(temperature=0.7, top_k=6)),
    "top-p 0.9": Pair(*near(11, 20, 1.0), DrawParams(temperature=1.0, top_p=0.9)),
    "top-p 0.5": Pair(*near(12, 20, 1.0), DrawParams(temperature=1.5, top_p=0.5)),
    "min-p 0.1": Pair(*near(13, 16, 1.0), DrawParams(temperature=1.0, min_p=0.1)),
    "min-p 0.02": Pair(*near(14, 16, 1.0), DrawParams(temperature=1.3, min_p=0.02)),
    "all of them": Pair(*near(15, 40, 1.0), DrawParams(temperature=0.9, top_k=12, top_p=0.92, min_p=0.03)),
    "typical": Pair(*near(24, 16, 1.0), DrawParams(temperature=1.2, typical=0.8)),
    "eta": Pair(*near(25, 16, 1.0), DrawParams(temperature=1.0, eta=0.1)),
    "top-h": Pair(*near(26, 16, 1.0), DrawParams(temperature=1.0, top_h=0.7)),
    "mirostat": Pair(*near(27, 16, 1.0), DrawParams(temperature=1.0, mirostat=1.6)),
    "edt": Pair(*near(28, 16, 1.0), DrawParams(temperature=1.2, edt=0.5)),
    "biased": Pair(*near(29, 12, 1.0), DrawParams(temperature=1.0, logit_bias=((1, -100.0), (4, 1.5)))),
    "sigma": Pair(*near(16, 24, 1.0), DrawParams(temperature=1.2, top_n_sigma=1.5)),
    "drafter trimmed to 2": Pair(*near(17, 12, 1.0), trim=DrawParams(temperature=1.0, top_k=2)),
    "drafter trimmed to a nucleus": Pair(*near(18, 30, 1.0), trim=DrawParams(temperature=1.0, top_p=0.6)),
    "drafter colder": Pair(*near(19, 16, 0.5), trim=DrawParams(temperature=0.3)),
    "equal": Pair(normal(20, 10), normal(20, 10)),
    "disjoint": Pair(only(range(4), 8), only(range(4, 8), 8)),
    "half disjoint": Pair(only(range(6), 9), only(range(3, 9), 9)),
    "drafter certain": Pair(*near(21, 10, 1.0), trim=DrawParams()),
    "target certain": Pair(*near(22, 10, 1.0), DrawParams(temperature=0.05)),
    "tiny q": Pair(normal(23, 8), (-30.0, 0.0, -40.0, 0.5, -35.0, -30.0, 1.0, -32.0)),
}


def spread(name: str, pair: Pair, seed: int) -> tuple[int, ...]:
    """The first two tokens after a round; every rule with drafts of the kind that it is for."""
    chance = Chance(7, seed)
    if name == "keyed":
        return by_noise(pair, seed, chance, lambda params, at: (params, at))
    rule, drafting = RULES[name]
    return by_rule(pair, rule, drafting, chance)


def by_rule(
    pair: Pair, rule: Rule, drafting: Callable[[F64, Chance], DraftTree], chance: Chance
) -> tuple[int, ...]:
    tree = drafting(pair.q, chance)
    verdict = rule(tree, lambda _: pair.p, lambda _: pair.q, chance)
    return completed(verdict, lambda _: pair.p, 2, chance)


def by_noise(
    pair: Pair,
    seed: int,
    chance: Chance,
    key: Callable[[DrawParams, int], tuple[DrawParams, int]],
) -> tuple[int, ...]:
    """Rounds at positions of one long sequence; ``key`` says which noise belongs to a position."""
    tree = draft_without_replacement(lambda _: pair.q, (2, 1), chance)

    def choose(position: int) -> int:
        params, at = key(pair.warp, position)
        return draw(pair.rows, 0, params, at, [])

    verdict = keyed(tree, lambda _, accepted: choose(2 * seed + len(accepted)))
    tokens = list(verdict.tokens[:2])
    while len(tokens) < 2:
        tokens.append(choose(2 * seed + len(tokens)))
    return tuple(tokens)


RULES: dict[str, tuple[Rule, Callable[[F64, Chance], DraftTree]]] = {
    "rejection": (speculative_sampling, lambda q, chance: draft_chain(lambda _: q, 2, chance)),
    "recursive": (
        recursive_rejection,
        lambda q, chance: draft_without_replacement(lambda _: q, (3, 1), chance),
    ),
    "k-seq": (k_seq, lambda q, chance: draft_chains(lambda _: q, 3, 2, chance)),
}


@pytest.fixture(autouse=True)
def remembered_rho(monkeypatch: pytest.MonkeyPatch) -> None:
    """k-SEQ looks for the same rho again and again here."""
    module = importlib.import_module("tests.reference.verification.k_seq")
    found: dict[tuple[bytes, bytes, int], float] = {}
    search = module.optimal_rho

    def rho(p: F64, q: F64, k: int) -> float:
        key = (p.tobytes(), q.tobytes(), k)
        if key not in found:
            found[key] = search(p, q, k)
        return found[key]

    monkeypatch.setattr(module, "optimal_rho", rho)


def p_values(procedure: Callable[[int], tuple[int, ...]], expected: Mapping[int, float], count: int) -> float:
    """The least of three, times three: of the first token, of the second, and of both together."""
    pairs = Counter(procedure(seed) for seed in range(count))
    both: dict[tuple[int, ...], float] = {
        (a, b): expected[a] * expected[b] for a in expected for b in expected
    }
    singles = [Counter[int](), Counter[int]()]
    for tokens, times in pairs.items():
        for counts, token in zip(singles, tokens, strict=True):
            counts[token] += times
    return 3 * min(chi_square_p(pairs, both), *(chi_square_p(counts, expected) for counts in singles))


@pytest.mark.parametrize(("name", "pair"), diagonal(["keyed", *RULES], list(PAIRS)))
def test_the_distribution_is_the_targets(name: str, pair: str) -> None:
    assert p_values(lambda seed: spread(name, PAIRS[pair], seed), PAIRS[pair].expected, DRAWS[name]) > REJECT


@pytest.mark.slow
@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("name", ["keyed", *RULES])
def test_the_distribution_is_the_targets_with_many_draws(name: str, pair: str) -> None:
    value = p_values(
        lambda seed: spread(name, PAIRS[pair], 10**6 + seed), PAIRS[pair].expected, 10 * DRAWS[name]
    )
    assert value > REJECT


# Negative controls: each is wrong in one way that has been written before.


def residual_not_taken(
    tree: DraftTree, target: Distributions, draft: Distributions, chance: Chance
) -> Verdict:
    """On rejection, draws from p."""
    token, p, q = tree.tokens[0], target(-1), draft(-1)
    if chance.accept(float(p[token] / q[token])):
        return Verdict((0,), (token,))
    return Verdict((), (chance.pick(p),))


def accepted_if_larger(
    tree: DraftTree, target: Distributions, draft: Distributions, chance: Chance
) -> Verdict:
    """Accepts exactly when p >= q."""
    token, p, q = tree.tokens[0], target(-1), draft(-1)
    if p[token] >= q[token]:
        return Verdict((0,), (token,))
    return Verdict((), (chance.pick(residual(p, q)),))


def bonus_from_q(tree: DraftTree, target: Distributions, draft: Distributions, chance: Chance) -> Verdict:
    """The token after an accepted draft comes from the drafter."""
    token, p, q = tree.tokens[0], target(-1), draft(-1)
    if chance.accept(float(p[token] / q[token])):
        return Verdict((0,), (token, chance.pick(draft(0))))
    return Verdict((), (chance.pick(residual(p, q)),))


def draft_not_updated(
    tree: DraftTree, target: Distributions, draft: Distributions, chance: Chance
) -> Verdict:
    """q keeps the mass of rejected siblings."""
    p, q = target(-1), draft(-1)
    for child in tree.children(-1):
        if chance.accept(float(p[tree.tokens[child]] / q[tree.tokens[child]])):
            return Verdict((child,), (tree.tokens[child],))
        p = residual(p, q)
    return Verdict((), (chance.pick(p),))


def siblings_tested_alike(
    tree: DraftTree, target: Distributions, draft: Distributions, chance: Chance
) -> Verdict:
    """Candidates are tested as if there were one: rho = 1, and the residual of one."""
    p, q = target(-1), draft(-1)
    for child in tree.children(-1):
        if chance.accept(float(p[tree.tokens[child]] / q[tree.tokens[child]])):
            return Verdict((child,), (tree.tokens[child],))
    return Verdict((), (chance.pick(residual(p, q)),))


WRONG: dict[str, tuple[Rule, str]] = {
    "residual not taken": (residual_not_taken, "rejection"),
    "accepted if p >= q": (accepted_if_larger, "rejection"),
    "bonus from q": (bonus_from_q, "rejection"),
    "q not updated": (draft_not_updated, "recursive"),
    "residual of p alone": (siblings_tested_alike, "recursive"),
    "rho of one": (siblings_tested_alike, "k-seq"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_rule_is_caught(name: str) -> None:
    rule, like = WRONG[name]
    pair, drafting = PAIRS["opposed"], RULES[like][1]
    value = p_values(lambda seed: by_rule(pair, rule, drafting, Chance(7, seed)), pair.expected, CONTROL)
    assert value < REJECT


KEYS: dict[str, Callable[[DrawParams, int], tuple[DrawParams, int]]] = {
    "by depth in the draft": lambda params, position: (params, position % 2),
    "used twice": lambda params, position: (params, position // 2),
    "without the temperature": lambda params, at: (DrawParams(temperature=1.0), at),
}


@pytest.mark.parametrize("name", KEYS)
def test_wrong_noise_is_caught(name: str) -> None:
    pair = PAIRS["hot"]
    value = p_values(
        lambda seed: by_noise(pair, seed, Chance(7, seed), KEYS[name]), pair.expected, CONTROL // 2
    )
    assert value < REJECT


def test_a_draw_that_was_dropped_for_being_improbable_is_caught() -> None:
    """Why a drafter that draws may not have its draft pruned by what it drew."""
    pair = PAIRS["opposed"]

    def pruned(q: F64, chance: Chance) -> DraftTree:
        tree = draft_chain(lambda _: q, 1, chance)
        return tree if q[tree.tokens[0]] > 0.2 else DraftTree()

    def procedure(seed: int) -> tuple[int, ...]:
        chance = Chance(7, seed)
        tree = pruned(pair.q, chance)
        verdict = speculative_sampling(tree, after(lambda _: pair.p, tree), lambda _: pair.q, chance)
        return completed(verdict, lambda _: pair.p, 2, chance)

    assert p_values(procedure, pair.expected, CONTROL) < REJECT
