"""RMSNorm against float64, across rows, splits and row counts."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.float_rows import F32, call, float_rows, same_bits

SIZES = [1, 15, 16, 17, 576, 640, 1536]


def make(seed: int, rows: int, d: int) -> tuple[F32, F32, F32]:
    rng = np.random.default_rng(seed)
    x = (rng.standard_normal((rows, d)) * 10.0 ** rng.uniform(-3, 3, (rows, 1))).astype(np.float32)
    return x, rng.standard_normal(d).astype(np.float32), rng.standard_normal((rows, d)).astype(np.float32)


def norm(row: str, x: F32, weight: F32, residual: F32 | None, epsilon: float = 1e-6) -> F32:
    out = np.full_like(x, np.nan)
    assert call("edgedec_rms_norm", row, x, weight, residual, out, 0, *x.shape, epsilon) == 0
    return out


@pytest.mark.parametrize("row", float_rows())
@pytest.mark.parametrize("d", SIZES)
@pytest.mark.parametrize("with_residual", [False, True])
def test_follows_the_definition(row: str, d: int, with_residual: bool) -> None:
    x, weight, residual = make(d, 3, d)
    wide = x.astype(np.float64)
    expected = wide / np.sqrt((wide**2).mean(axis=1, keepdims=True) + 1e-6) * weight
    size = np.abs(expected) + (np.abs(residual) if with_residual else 0)
    got = norm(row, x, weight, residual if with_residual else None)
    assert np.all(np.abs(got - (expected + residual if with_residual else expected)) <= 5e-7 * size)


@pytest.mark.parametrize("d", SIZES)
@pytest.mark.parametrize("seed", range(3))
def test_every_row_has_the_bits_of_the_scalar_row(d: int, seed: int) -> None:
    x, weight, residual = make(seed, 4, d)
    for extra in (None, residual):
        expected = norm("scalar", x, weight, extra)
        for row in float_rows()[1:]:
            assert same_bits(norm(row, x, weight, extra), expected), row


@pytest.mark.parametrize("row", float_rows())
@pytest.mark.parametrize("count", range(2, 17))
def test_a_row_does_not_see_its_neighbours(row: str, count: int) -> None:
    x, weight, residual = make(count, count, 577)
    together = norm(row, x, weight, residual)
    alone = np.concatenate([norm(row, x[i : i + 1], weight, residual[i : i + 1]) for i in range(count)])
    assert same_bits(together, alone)


@pytest.mark.parametrize("row", float_rows())
def test_a_range_touches_its_rows_only(row: str) -> None:
    x, weight, residual = make(1, 8, 33)
    out = np.full_like(x, np.float32(7))
    assert call("edgedec_rms_norm", row, x, weight, residual, out, 2, 5, 33, 1e-6) == 0
    assert same_bits(out[2:5], norm(row, x, weight, residual)[2:5])
    assert np.all(out[:2] == 7)
    assert np.all(out[5:] == 7)


@pytest.mark.parametrize("row", float_rows())
def test_may_write_over_its_input_or_residual(row: str) -> None:
    x, weight, residual = make(2, 4, 37)
    expected = norm(row, x, weight, residual)
    over_x, over_residual = x.copy(), residual.copy()
    assert call("edgedec_rms_norm", row, over_x, weight, residual, over_x, 0, 4, 37, 1e-6) == 0
    assert call("edgedec_rms_norm", row, x, weight, over_residual, over_residual, 0, 4, 37, 1e-6) == 0
    assert same_bits(over_x, expected)
    assert same_bits(over_residual, expected)


@pytest.mark.parametrize("row", float_rows())
def test_zeros_stay_zero_thanks_to_epsilon(row: str) -> None:
    zeros = np.zeros((1, 20), np.float32)
    assert np.all(norm(row, zeros, np.ones(20, np.float32), None) == 0)


def test_unknown_rows_are_refused() -> None:
    x = np.zeros((1, 16), np.float32)
    assert call("edgedec_rms_norm", "avx3", x, x, None, x, 0, 1, 16, 1e-6) != 0
