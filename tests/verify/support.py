"""Exact distributions by trying every outcome, and drafts of each kind to try them on."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable

import numpy as np
from numpy.typing import NDArray

from edgedec.core.tree import ROOT, DraftTree
from edgedec.decode.records import Verdict
from tests.reference.verification import Chance

F64 = NDArray[np.float64]
Context = tuple[int, ...]
Model = Callable[[Context], F64]
"""Distribution f64[V] after a context."""


class Scripted(Chance):
    """Replays decisions, then takes the first possible outcome of each further one."""

    def __init__(self, script: list[int]) -> None:
        self.script = script
        self.taken: list[int] = []
        self.possible: list[list[int]] = []
        self.weight = 1.0

    def accept(self, probability: float) -> bool:
        yes = min(max(probability, 0.0), 1.0)
        return self.pick(np.array([1.0 - yes, yes])) == 1

    def pick(self, distribution: F64) -> int:
        possible = np.flatnonzero(distribution > 0.0).tolist()
        at = len(self.taken)
        self.taken.append(self.script[at] if at < len(self.script) else possible[0])
        self.possible.append(possible)
        self.weight *= float(distribution[self.taken[at]])
        return self.taken[at]

    def following(self) -> list[int] | None:
        """The next script in lexicographic order, or None after the last one."""
        for at in reversed(range(len(self.taken))):
            later = [outcome for outcome in self.possible[at] if outcome > self.taken[at]]
            if later:
                return [*self.taken[:at], later[0]]
        return None


def exact_distribution(procedure: Callable[[Chance], Hashable]) -> dict[Hashable, float]:
    """The probability of every result of a procedure that gets all its randomness from its argument."""
    distribution: dict[Hashable, float] = {}
    script: list[int] | None = []
    while script is not None:
        chance = Scripted(script)
        result = procedure(chance)
        distribution[result] = distribution.get(result, 0.0) + chance.weight
        script = chance.following()
    return distribution


def random_model(seed: int, vocab: int, *, sharpness: float = 1.5, missing: tuple[int, ...] = ()) -> Model:
    """A distribution per context; tokens in ``missing`` never have any probability."""

    @functools.cache
    def distribution(context: Context) -> F64:
        generator = np.random.default_rng([seed, *context])
        weights = np.exp(sharpness * generator.standard_normal(vocab))
        weights[list(missing)] = 0.0
        return np.asarray(weights / weights.sum())

    return distribution


def after(model: Model, tree: DraftTree) -> Callable[[int], F64]:
    """The model's distribution after a node of the tree."""
    return lambda node: model(tuple(tree.tokens[step] for step in tree.path(node)))


def grow(tokens: list[int], parents: list[int]) -> DraftTree:
    return DraftTree(tuple(tokens), tuple(parents), (0.5,) * len(tokens), ("test",) * len(tokens))


def draft_chain(model: Model, depth: int, chance: Chance) -> DraftTree:
    tokens: list[int] = []
    for _ in range(depth):
        tokens.append(chance.pick(model(tuple(tokens))))
    return grow(tokens, list(range(ROOT, depth - 1)))


def draft_chains(model: Model, width: int, depth: int, chance: Chance) -> DraftTree:
    """``width`` independent chains, side by side."""
    tokens: list[int] = []
    parents: list[int] = []
    for _ in range(width):
        begin = len(tokens)
        for step in range(depth):
            tokens.append(chance.pick(model(tuple(tokens[begin:]))))
            parents.append(ROOT if step == 0 else len(tokens) - 2)
    return grow(tokens, parents)


def draft_without_replacement(model: Model, widths: tuple[int, ...], chance: Chance) -> DraftTree:
    """``widths[d]`` different children for every node of depth d, as far as the model has that many."""
    tokens: list[int] = []
    parents: list[int] = []
    level: list[tuple[int, Context]] = [(ROOT, ())]
    for width in widths:
        following: list[tuple[int, Context]] = []
        for node, context in level:
            distribution = model(context).copy()
            for _ in range(min(width, int(np.count_nonzero(distribution)))):
                token = chance.pick(distribution / distribution.sum())
                distribution[token] = 0.0
                tokens.append(token)
                parents.append(node)
                following.append((len(tokens) - 1, (*context, token)))
        level = following
    return grow(tokens, parents)


def completed(verdict: Verdict, target: Model, length: int, chance: Chance) -> Context:
    """The first ``length`` tokens: the verdict's, continued without speculation."""
    tokens = list(verdict.tokens)
    while len(tokens) < length:
        tokens.append(chance.pick(target(tuple(tokens))))
    return tuple(tokens[:length])


def plain(target: Model, length: int) -> Callable[[Chance], Context]:
    """The first ``length`` tokens of decoding without speculation."""
    return lambda chance: completed(Verdict((), ()), target, length, chance)


def distance(first: dict[Hashable, float], second: dict[Hashable, float]) -> float:
    """Total variation."""
    keys = first.keys() | second.keys()
    return 0.5 * sum(abs(first.get(key, 0.0) - second.get(key, 0.0)) for key in keys)
