"""Models with recurrent layers without our kernels: a plain session says what the file means."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from edgedec.export import export_gguf
from tests.fixtures.tiny_gguf import TinyShape, write_tiny
from tests.fixtures.tiny_hybrid import DeltaShape
from tests.portable.runner import Runner, options
from tests.portable.test_portable import CACHE_ROUNDING, FLOAT_ROUNDING
from tests.reference.graph import graph_logits
from tests.reference.model import reference_logits

TOKENS = [int(token) for token in np.random.default_rng(5).integers(4, 260, 60)]
CASES = {
    "qwen35": ("qwen35", TinyShape(layers=5, head_dim=32)),
    "qwen35-equal-heads": (
        "qwen35",
        TinyShape(
            layers=2, head_dim=16, delta=DeltaShape(k_heads=3, v_heads=3, kernel=3, rotary=4, period=2)
        ),
    ),
    "lfm2": ("lfm2", TinyShape(layers=5)),
}
ROUNDING, MEAN_ROUNDING = 0.2, 0.03
"""Bounds, as parts of the largest logit, between bodies and kernels, which round inputs to 8 bits.

Seen: 0.11 and 0.012.

A layer that has read one token norms q.k times its value: rounding may turn the sign of a small product.
"""
TREE = [-1, 0, 0, 1, 1, 2, 5, -1, 7, 6]


@pytest.fixture(scope="module", params=CASES)
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The GGUF file and the bundle."""
    folder = tmp_path_factory.mktemp(request.param)
    architecture, shape = CASES[request.param]
    gguf = write_tiny(folder / "model.gguf", architecture, shape=shape, tied=False)
    export_gguf(gguf, folder / "bundle", backend="edgedec")
    return gguf, folder / "bundle"


def test_passes_of_all_lengths_as_the_file_means(made: tuple[Path, Path]) -> None:
    """A prompt, single tokens, and a pass longer than a trail."""
    gguf, bundle = made
    runner, cuts = Runner(bundle), [0, 6, 7, 8, 12, 50, 51, 60]
    parts = [runner.run(TOKENS[start:end])["logits"] for start, end in pairwise(cuts)]
    got, expected = np.concatenate(parts), reference_logits(gguf, TOKENS, dtype=np.float64)
    scale = np.abs(expected).max()
    np.testing.assert_allclose(
        got, graph_logits(bundle, TOKENS, cache=np.float16), atol=FLOAT_ROUNDING * scale
    )
    np.testing.assert_allclose(got, expected, atol=CACHE_ROUNDING * scale)
    assert expected.std() > 0.3


def test_every_node_of_a_tree_sees_its_own_path(made: tuple[Path, Path]) -> None:
    """And the tree leaves no trace in what is resident: tokens behind it are computed as without it."""
    runner, other = Runner(made[1]), Runner(made[1])
    for one in (runner, other):
        one.run(TOKENS[:3])
    got = runner.run(TOKENS[4:14], TREE)["logits"]
    for leaf in range(len(TREE)):
        path, node = [], leaf
        while node >= 0:
            path.insert(0, TOKENS[4 + node])
            node = TREE[node]
        other.length = 3
        chain = other.run(path)["logits"][-1]
        np.testing.assert_allclose(got[leaf], chain, atol=1e-4 * np.abs(chain).max())


def test_the_kernels_agree_up_to_their_rounding(made: tuple[Path, Path]) -> None:
    plain, ours = Runner(made[1]), Runner(made[1], options(kernels=True))
    for tokens, parents in ((TOKENS[:9], None), (TOKENS[9:19], TREE), (TOKENS[9:10], None)):
        plain.length = ours.length = min(plain.length, 9)
        got, expected = ours.run(tokens, parents)["logits"], plain.run(tokens, parents)["logits"]
        np.testing.assert_allclose(got, expected, atol=ROUNDING * np.abs(expected).max())
        error = np.abs(got - expected)
        assert 0 < error.mean() < MEAN_ROUNDING * np.abs(expected).max()  # 0: the kernels ran both
