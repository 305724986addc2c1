"""Tiny, infinite and NaN values: the same in every row, never laundered into numbers, never out of bounds."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.float_rows import same_bits
from tests.kernels.quant_rows import FORMATS, SCALAR, Packed, Runner, random_packed, runner_id, runners

EVERY_ROW = pytest.mark.parametrize("runner", [SCALAR, *runners()], ids=runner_id)


@EVERY_ROW
@pytest.mark.parametrize("size", [1e-45, 1e-40, 1.2e-38, 3.7e-37, 1.4e-36])
def test_a_group_too_small_to_scale_is_zero(runner: Runner, size: float) -> None:
    x = np.random.default_rng(1).uniform(-size, size, (2, 96)).astype(np.float32)
    q, _, total = runner.quantise(x)
    assert not q.any()
    assert not total.any()


@EVERY_ROW
def test_the_smallest_group_that_is_not_zero(runner: Runner) -> None:
    x = np.full((1, 32), 2.0**-119, dtype=np.float32)
    x[0, 1::2] *= -1
    q, scale, _ = runner.quantise(x)
    assert q[0, :32].tolist() == [127, -127] * 16
    assert scale[0, 0] == np.float32(2.0**-119) / np.float32(127)


@EVERY_ROW
@pytest.mark.parametrize("value", [np.nan, -np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("at", [0, 7, 8, 31])
def test_what_is_no_number_makes_its_group_nan(runner: Runner, value: float, at: int) -> None:
    x = np.ones((1, 64), dtype=np.float32)
    x[0, at] = value
    q, scale, total = runner.quantise(x)
    assert q[0, :64].tolist() == [0] * 32 + [127] * 32
    assert np.isnan(scale[0, 0])
    assert scale[0, 1] == np.float32(1) / np.float32(127)
    assert total[0, :4].tolist() == [0, 0, 16 * 127, 16 * 127]


@EVERY_ROW
@pytest.mark.parametrize("format", FORMATS)
def test_no_number_comes_out_where_none_went_in(runner: Runner, format: str) -> None:
    w = random_packed(format, 20, 256, 3)
    x = np.random.default_rng(2).normal(size=(9, 256)).astype(np.float32)
    clean = runner.linear(w, x)
    x[4, 200] = np.nan
    got = runner.linear(w, x)
    assert np.isnan(got[4]).all()
    others = [0, 1, 2, 3, 5, 6, 7, 8]
    assert got[others].tobytes() == clean[others].tobytes()


def with_nan_entries(rows: int, every: int) -> Packed:
    """A q8_0 table in which one entry of ``every`` has a NaN scale."""
    w = random_packed("q8_0", rows, 32, 5)
    halves = w.data.view(np.float16)
    for entry in range(0, rows, every):
        halves[entry // 16, entry % 16] = np.nan
    return w


@EVERY_ROW
@pytest.mark.parametrize("every", [1, 2, 3, 7])
def test_a_head_with_nan_logits_ranks_the_numbers_and_says_so(runner: Runner, every: int) -> None:
    w = with_nan_entries(3000, every)
    x = np.random.default_rng(4).normal(size=(2, 32)).astype(np.float32)
    out = runner.head(w, x, k=500, logits=True)
    assert same_bits(out["logits"], SCALAR.linear(w, x))
    assert np.isnan(out["logsumexp"]).all()
    assert np.isnan(out["entropy"]).all()
    for row in range(2):
        logits = out["logits"][row]
        numbers = np.flatnonzero(~np.isnan(logits))
        best = numbers[np.lexsort((numbers, -logits[numbers]))][:500]
        assert out["ids"][row, : len(best)].tolist() == best.tolist()
        assert (out["ids"][row, len(best) :] == -1).all()
