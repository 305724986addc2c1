from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from edgedec.control import merged
from edgedec.core.tree import DraftTree, chain


def as_said(source: str, prob: float) -> float:
    return prob


def paths(tree: DraftTree) -> dict[tuple[int, ...], float]:
    """Tokens from the root to each node, and the probability of all of them."""
    found: dict[tuple[int, ...], float] = {}
    for node in range(len(tree)):
        steps = tree.path(node)
        found[tuple(tree.tokens[step] for step in steps)] = math.prod(tree.probs[step] for step in steps)
    return found


def test_equal_paths_become_one_with_the_better_probability() -> None:
    tree = merged([chain([1, 2], [0.5, 0.5], "a"), chain([1, 3], [0.8, 0.9], "b")], 8, as_said)
    assert sorted(paths(tree)) == [(1,), (1, 2), (1, 3)]
    assert tree.probs[0] == 0.8
    assert tree.sources == ("b", "b", "a")


def test_belief_decides() -> None:
    trees = [chain([1], [0.9], "liar"), chain([2], [0.5], "honest")]
    tree = merged(trees, 1, lambda source, prob: 0.1 if source == "liar" else prob)
    assert tree.tokens == (2,)


@st.composite
def trees(draw: st.DrawFn) -> DraftTree:
    count = draw(st.integers(0, 8))
    parents = tuple(draw(st.integers(-1, node - 1)) for node in range(count))
    tokens = tuple(draw(st.integers(0, 3)) for _ in range(count))
    probs = tuple(draw(st.floats(0.05, 1.0)) for _ in range(count))
    return DraftTree(tokens, parents, probs, ("x",) * count)


@given(st.lists(trees(), max_size=3), st.integers(0, 12))
def test_each_prefix_is_the_best_tree_of_its_size(given_trees: list[DraftTree], limit: int) -> None:
    whole = paths(merged(given_trees, 1000, as_said))
    assert set(whole) == {path for tree in given_trees for path in paths(tree)}
    part = merged(given_trees, limit, as_said)
    assert len(part) == min(limit, len(whole))
    reach = list(paths(part).values())
    assert reach == sorted(reach, reverse=True)
    assert reach == sorted(whole.values(), reverse=True)[: len(part)]
