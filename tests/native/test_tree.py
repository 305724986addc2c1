"""The native draft tree beside Python's."""

from __future__ import annotations

import ctypes
import random

import numpy as np
import pytest

from edgedec.core.tree import ROOT, DraftTree
from edgedec.native import probe

POINTER, SIZE = ctypes.c_void_p, ctypes.c_size_t


def random_tree(dice: random.Random) -> DraftTree:
    """Draw a tree of few different tokens, so that siblings repeat them."""
    count = dice.randrange(24)
    parents = tuple(dice.randrange(ROOT, node) for node in range(count))
    sources = tuple(str(node) for node in range(count))
    return DraftTree(tuple(dice.randrange(4) for _ in parents), parents, (1.0,) * count, sources)


@pytest.mark.parametrize("seed", range(200))
def test_a_tree_is_led_by_the_same_path(seed: int) -> None:
    dice = random.Random(f"tree {seed}")
    tree = random_tree(dice)
    leading = np.array([dice.randrange(4) for _ in range(dice.randrange(6))], np.int32)
    tokens, parents = np.array(tree.tokens, np.int32), np.array(tree.parents, np.int32)
    order = np.zeros(len(tree), np.int32)
    lead = probe.function("tree_lead", None, POINTER, POINTER, SIZE, POINTER, SIZE, POINTER)
    lead(
        tokens.ctypes.data,
        parents.ctypes.data,
        len(tree),
        leading.ctypes.data,
        len(leading),
        order.ctypes.data,
    )
    led = tree.led_by(leading.tolist())
    assert tuple(tokens.tolist()) == led.tokens
    assert tuple(parents.tolist()) == led.parents
    assert tuple(map(str, order.tolist())) == led.sources


@pytest.mark.parametrize("seed", range(50))
def test_paths_and_depths(seed: int) -> None:
    tree = random_tree(random.Random(f"tree {seed}"))
    tokens, parents = np.array(tree.tokens, np.int32), np.array(tree.parents, np.int32)
    path_of = probe.function(
        "tree_path", ctypes.c_int, POINTER, POINTER, SIZE, ctypes.c_int, POINTER, POINTER
    )
    for node in range(ROOT, len(tree)):
        path, deepest = np.zeros(len(tree), np.int32), ctypes.c_int()
        count = path_of(
            tokens.ctypes.data, parents.ctypes.data, len(tree), node, path.ctypes.data, ctypes.byref(deepest)
        )
        assert tuple(path[:count].tolist()) == tree.path(node)
        assert deepest.value == max(tree.depths(), default=0)
