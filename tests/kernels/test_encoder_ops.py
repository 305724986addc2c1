"""Layer norms, activations and pooling against float64, across kernel rows and counts of rows."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.kernels.float_rows import F32, call, float_rows, same_bits

SIZES = [1, 15, 16, 17, 33, 384, 577]
FUNCTIONS = ("gelu", "gelu_tanh", "silu", "tanh", "sigmoid", "relu")


def make(seed: int, rows: int, d: int) -> tuple[F32, F32, F32, F32]:
    """x, what is added to it, weight and bias."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((rows, d)) * 10.0 ** rng.uniform(-3, 3, (rows, 1)) + rng.uniform(-2, 2)
    others = rng.standard_normal((rows, d)), rng.standard_normal(d), rng.standard_normal(d)
    return x.astype(np.float32), *(one.astype(np.float32) for one in others)


def norm(row: str, x: F32, added: F32 | None, weight: F32, bias: F32 | None) -> F32:
    out = np.full_like(x, np.nan)
    assert call("edgedec_layer_norm", row, x, added, weight, bias, out, 0, *x.shape, 1e-12) == 0
    return out


def activate(row: str, function: str, x: F32, factor: F32 | None = None) -> F32:
    out = np.full_like(x, np.nan)
    assert call("edgedec_activate", row, function.encode(), x, factor, out, x.size) == 0
    return out


def pool(row: str, pooling: str, x: F32, first: int, end: int) -> F32:
    out = np.full(x.shape[1], np.nan, np.float32)
    assert call("edgedec_pool", row, pooling.encode(), x, first, end, x.shape[1], out) == 0
    return out


@pytest.mark.parametrize("row", float_rows())
@pytest.mark.parametrize("d", [16, 17, 384, 577])
@pytest.mark.parametrize("whole", [False, True])
def test_a_layer_norm_follows_its_definition(row: str, d: int, whole: bool) -> None:
    x, added, weight, bias = make(d, 3, d)
    wide = x.astype(np.float64) + (added if whole else 0)
    expected = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + 1e-12) * weight
    expected = expected + bias if whole else expected
    got = norm(row, x, added if whole else None, weight, bias if whole else None)
    np.testing.assert_allclose(got, expected, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("d", SIZES)
def test_every_row_has_the_bits_of_the_scalar_row(d: int) -> None:
    x, added, weight, bias = make(d, 4, d)
    for row in float_rows()[1:]:
        for more, last in ((None, None), (added, bias)):
            expected = norm("scalar", x, more, weight, last)
            assert same_bits(norm(row, x, more, weight, last), expected), row
        for function in FUNCTIONS:
            expected = activate("scalar", function, x, added)
            assert same_bits(activate(row, function, x, added), expected), (row, function)
        for pooling in ("mean", "cls", "last"):
            expected = pool("scalar", pooling, x, 1, 4)
            assert same_bits(pool(row, pooling, x, 1, 4), expected), (row, pooling)


@pytest.mark.parametrize("row", float_rows())
def test_a_row_does_not_see_its_neighbours(row: str) -> None:
    x, added, weight, bias = make(5, 9, 577)
    together = norm(row, x, added, weight, bias)
    alone = [norm(row, x[i : i + 1], added[i : i + 1], weight, bias) for i in range(len(x))]
    assert same_bits(together, np.concatenate(alone))
    assert same_bits(activate(row, "gelu", x)[3], activate(row, "gelu", x[3]))


@pytest.mark.parametrize("row", float_rows())
def test_gelu_is_within_a_few_units_of_erf(row: str) -> None:
    x = np.concatenate([np.linspace(-20, 20, 4001), [0.0, -0.0, 1e-30, -1e-30]]).astype(np.float32)
    expected = np.array([0.5 * v * (1 + math.erf(v / math.sqrt(2))) for v in x.astype(np.float64)])
    assert np.all(np.abs(activate(row, "gelu", x) - expected) <= 3e-7 * np.maximum(np.abs(x), 1e-30))
    ends = activate(row, "gelu", np.array([np.inf, -np.inf, np.nan, 3e38], np.float32))
    assert ends[0] == np.inf
    assert ends[1] == 0
    assert np.isnan(ends[2])
    assert ends[3] == np.float32(3e38)


@pytest.mark.parametrize("row", float_rows())
def test_pooling_takes_rows_of_its_text_alone(row: str) -> None:
    x, *_ = make(6, 7, 33)
    assert same_bits(pool(row, "cls", x, 2, 5), x[2])
    assert same_bits(pool(row, "last", x, 2, 5), x[4])
    np.testing.assert_allclose(pool(row, "mean", x, 2, 5), x[2:5].mean(0), rtol=1e-5, atol=1e-6)
    assert same_bits(pool(row, "mean", x, 2, 5), pool(row, "mean", x[2:5], 0, 3))


def test_unknown_rows_and_names_are_refused() -> None:
    x = np.zeros((1, 16), np.float32)
    assert call("edgedec_layer_norm", "avx3", x, None, x, None, x, 0, 1, 16, 1e-6) != 0
    assert call("edgedec_activate", "scalar", b"swish", x, None, x, 16) != 0
    assert call("edgedec_pool", "scalar", b"max", x, 0, 1, 16, x) != 0
    assert call("edgedec_pool", "scalar", b"mean", x, 1, 1, 16, x) != 0
