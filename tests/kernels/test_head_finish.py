"""The end of HeadTopK on the host, from sums and candidates found elsewhere, equals the whole op."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.float_rows import same_bits
from tests.kernels.head_finish import BLOCK, HeadShape, blocks, finish
from tests.kernels.head_sums import block_sums, candidates_of
from tests.kernels.quant_rows import SCALAR, random_packed


def inputs(r: int, cols: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 2, (r, cols)).astype(np.float32)


@pytest.mark.parametrize("temperature", [1.0, 0.6])
@pytest.mark.parametrize("softcap", [0.0, 8.0])
@pytest.mark.parametrize("refined", [False, True])
@pytest.mark.parametrize("rows", [1, 40, 1024, 2065])
def test_equals_the_whole_op(rows: int, refined: bool, softcap: float, temperature: float) -> None:
    w, x = random_packed("q8_0", rows, 64, rows), inputs(3, 64, rows)
    expected = SCALAR.head(w, x, logits=True, refined=refined, softcap=softcap, temperature=temperature)
    coarse = SCALAR.head(w, x, logits=True, softcap=softcap)["logits"]
    facts = HeadShape(rows, 64, softcap, temperature)
    found = candidates_of(coarse, 64)
    fine = None
    if refined:
        ids = np.where(found[..., 0] < rows, found[..., 0], 0)
        fine = np.take_along_axis(SCALAR.linear(w, x, terms=2), ids.astype(np.int64), axis=1)
    out = finish(facts, block_sums(coarse, temperature), found, fine, coarse)
    assert same_bits(coarse, expected["logits"])
    assert out is not None
    for name, value in out.items():
        assert same_bits(value, expected[name]), name


@pytest.mark.parametrize(
    ("ids", "values"),
    [([3, 10], [1, 0]), ([3, 4], [0, 1]), ([4, 3], [1, 1]), ([3, 3], [1, 1]), ([1], [float("nan")])],
)
def test_what_no_kernel_returns_is_refused(ids: list[int], values: list[float]) -> None:
    found = np.stack([np.array(ids, np.uint32), np.array(values, np.float32).view(np.uint32)], axis=1)[None]
    sums = np.zeros((1, blocks(10), 3), np.float32)
    assert finish(HeadShape(10, len(ids)), sums, np.ascontiguousarray(found)) is None
    assert blocks(BLOCK + 1) == 2
