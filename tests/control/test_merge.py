from __future__ import annotations

import math
from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from edgedec.control import CostCurve
from edgedec.core.tree import DraftTree, chain
from edgedec.decode.passes import PassTime
from edgedec.decode.speculation import Speculation
from tests.control.simulate import NO_ROWS, Saying, following
from tests.fixtures.rounds import begin_round


def speculation(trees: Sequence[DraftTree], costs: CostCurve | None = None) -> Speculation:
    """One drafter for each tree, named after its source."""
    drafters = [
        Saying(tree.sources[0] if len(tree) else f"none {at}", lambda limit, tree=tree: tree)
        for at, tree in enumerate(trees)
    ]
    made = Speculation(drafters, costs, limit=1000)
    made.begin([], 0)
    return made


def merged(trees: Sequence[DraftTree], limit: int) -> DraftTree:
    """What is fed of all trees where nobody weighs costs."""
    return begin_round(speculation(trees), limit).tree


def paths(tree: DraftTree) -> dict[tuple[int, ...], float]:
    """Tokens from the root to each node, and the probability of all of them."""
    found: dict[tuple[int, ...], float] = {}
    for node in range(len(tree)):
        steps = tree.path(node)
        found[tuple(tree.tokens[step] for step in steps)] = math.prod(tree.probs[step] for step in steps)
    return found


def test_equal_paths_become_one_with_the_better_probability() -> None:
    tree = merged([chain([1, 2], [0.5, 0.5], "a"), chain([1, 3], [0.8, 0.9], "b")], 8)
    assert sorted(paths(tree)) == [(1,), (1, 2), (1, 3)]
    assert tree.probs[0] == 0.8
    assert tree.sources == ("b", "b", "a")


def test_belief_decides() -> None:
    """Where room is for one token, it is that of the drafter that is right more often than it says."""
    one = speculation([chain([1], [0.9], "liar"), chain([2], [0.5], "honest")], CostCurve({1: 1.0, 16: 1.0}))
    first = begin_round(one, 1)
    assert first.tree.tokens == (1,)
    first.settle(NO_ROWS, following(first.tree, [2]), PassTime(1.0))
    for _ in range(30):
        round = begin_round(one, 1)
        round.settle(NO_ROWS, following(round.tree, [2, 2]), PassTime(1.0))
    assert begin_round(one, 1).tree.tokens == (2,)


@st.composite
def trees(draw: st.DrawFn) -> DraftTree:
    count = draw(st.integers(0, 8))
    parents = tuple(draw(st.integers(-1, node - 1)) for node in range(count))
    tokens = tuple(draw(st.integers(0, 3)) for _ in range(count))
    probs = tuple(draw(st.floats(0.05, 1.0)) for _ in range(count))
    return DraftTree(tokens, parents, probs, (draw(st.sampled_from("xyz")),) * count)


@settings(deadline=None)
@given(st.lists(trees(), max_size=3), st.integers(0, 12))
def test_each_prefix_is_the_best_tree_of_its_size(given_trees: list[DraftTree], limit: int) -> None:
    whole = paths(merged(given_trees, 1000))
    assert set(whole) == {path for tree in given_trees for path in paths(tree)}
    part = merged(given_trees, limit)
    assert len(part) == min(limit, len(whole))
    reach = list(paths(part).values())
    assert reach == sorted(reach, reverse=True)
    assert reach == sorted(whole.values(), reverse=True)[: len(part)]
