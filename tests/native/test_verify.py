"""The native verification accepts the nodes and tokens that Python's does."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from edgedec.core.tree import DraftTree
from edgedec.verify import keyed
from tests.kernels.float_rows import pointer
from tests.native.drawing import array, call


def walked(
    tree: DraftTree, targets: Sequence[int], stop_ids: Sequence[int], most: int
) -> tuple[int, list[int], list[int], list[int], list[int]]:
    """Return the code, at how many tokens each node was asked, path and tokens, and the lengths of both."""
    asked, path = np.zeros(len(tree) + 1, np.int32), np.zeros(len(tree) + 1, np.int32)
    tokens, counts = np.zeros(len(tree) + 1, np.int32), np.zeros(4, np.int64)
    code = call(
        None, "keyed", array([len(tree), len(stop_ids), most], np.int64), array(tree.tokens, np.int32),
        array(tree.parents, np.int32), array(targets, np.int32), array(stop_ids, np.int32),
        *(pointer(one) for one in (asked, path, tokens, counts)),
    )  # fmt: skip
    return code, asked.tolist(), path[: counts[0]].tolist(), tokens[: counts[1]].tolist(), counts[2:].tolist()


def random_tree(rng: np.random.Generator) -> DraftTree:
    """A tree of few different tokens, so that paths are long and siblings repeat a token."""
    count = int(rng.integers(0, 24))
    parents = [int(rng.integers(-1, node)) if rng.random() < 0.6 else node - 1 for node in range(count)]
    tokens = rng.integers(0, 3, count).tolist()
    return DraftTree(tuple(tokens), tuple(parents), (1.0,) * count, ("a",) * count)


@pytest.mark.parametrize("seed", range(4))
def test_random_walks_are_pythons(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(200):
        compare(rng)


def compare(rng: np.random.Generator) -> None:
    tree = random_tree(rng)
    targets = rng.integers(0, 3, len(tree) + 1).tolist()
    stop_ids, most = rng.integers(0, 9, int(rng.integers(0, 3))).tolist(), int(rng.integers(1, 8))
    asked = [-1] * (len(tree) + 1)

    def choose(node: int, accepted: Sequence[int]) -> int:
        asked[node + 1] = len(accepted)
        token: int = targets[node + 1]
        return token

    expected = keyed(tree, choose)
    cut = expected.until(stop_ids, most)
    lengths = [len(cut.path), len(cut.tokens)]
    found = walked(tree, targets, stop_ids, most)
    assert found == (0, asked, list(expected.path), list(expected.tokens), lengths)


def test_a_token_that_cannot_be_drawn_ends_the_walk() -> None:
    tree = DraftTree((1, 2), (-1, 0), (1.0, 1.0), ("a", "a"))
    code, asked, *_ = walked(tree, [1, -1, 0], (), 9)
    assert code == 9
    assert asked == [0, 1, -1]
