from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.reference import noise
from tests.sampling.drawing import numbers

HALVES = [(n + 0.5) * math.log(2.0) for n in range(-1009, 1009)]  # where rounding to a power of two is a tie
EXP_EDGES = [
    0.0, -0.0, 5e-324, -5e-324, -700.0, math.nextafter(-700.0, 0.0), math.nextafter(-700.0, -701.0), -1e308,
    -math.inf, 700.0, math.nextafter(700.0, 701.0), 705.0, *HALVES,
    *(math.nextafter(x, 0.0) for x in HALVES),
    *(math.nextafter(x, math.copysign(math.inf, x)) for x in HALVES),
]  # fmt: skip
ROOTS = [math.ldexp(math.sqrt(0.5), n) for n in range(-60, 60)]  # where the mantissa is halved or not
LOG_EDGES = [
    2.0**-53, 1.0 - 2.0**-53, 2.2250738585072014e-308, 1.7976931348623157e308,
    *(2.0**n for n in range(-60, 60)),
    *ROOTS, *(math.nextafter(x, 0.0) for x in ROOTS), *(math.nextafter(x, math.inf) for x in ROOTS),
]  # fmt: skip


@given(st.floats(-700, 700))
def test_exp_is_accurate(x: float) -> None:
    assert math.isclose(noise.exp(np.array([x]))[0], math.exp(x), rel_tol=2e-15)


@given(st.floats(1e-300, 1e300))
def test_log_is_accurate(x: float) -> None:
    assert math.isclose(noise.log(np.array([x]))[0], math.log(x), rel_tol=1e-15, abs_tol=2e-16)


def test_log_is_accurate_just_below_one() -> None:
    x = 1.0 - 2.0 ** -np.arange(1, 54)
    expected = [math.log1p(-(2.0 ** -float(n))) for n in range(1, 54)]
    np.testing.assert_allclose(noise.log(x), expected, rtol=1e-14)


def test_special_points_are_exact() -> None:
    assert noise.exp(np.array([0.0]))[0] == 1.0
    assert noise.log(np.array([1.0]))[0] == 0.0
    low = noise.exp(np.array([-701.0, -1e9, -np.inf]))
    assert (low == noise.exp(np.array([-700.0]))[0]).all()
    assert (low > 0).all()


def same_bits(ones: np.ndarray, others: np.ndarray) -> None:
    np.testing.assert_array_equal(ones.view(np.uint64), others.view(np.uint64))


def test_the_core_has_the_same_bits() -> None:
    rng = np.random.default_rng(2)
    spread = np.array([*EXP_EDGES, *(-rng.exponential(5.0, 20_000)), *rng.uniform(-710.0, 705.0, 20_000)])
    same_bits(numbers(0, spread), noise.exp(spread))
    below = spread[spread <= 700.0]
    same_bits(numbers(4, below), noise.exp(below))
    positive = [*LOG_EDGES, *rng.uniform(0.0, 1.0, 20_000), *np.exp(rng.uniform(-700.0, 700.0, 20_000))]
    same_bits(numbers(1, positive), noise.log(np.array(positive)))


@pytest.mark.filterwarnings("ignore:invalid value", "ignore:overflow")
@pytest.mark.parametrize("x", [math.nan, math.inf, 1e300, 1000.0])
def test_exp_of_what_is_out_of_range_is_no_error(x: float) -> None:
    """Sums of a broken model; whoever reads them says so in one line."""
    assert not np.isfinite(numbers(0, [x])[0])
