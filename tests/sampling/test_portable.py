from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from edgedec.sampling import portable


@given(st.floats(-700, 700))
def test_exp_is_accurate(x: float) -> None:
    assert math.isclose(portable.exp(np.array([x]))[0], math.exp(x), rel_tol=2e-15)


@given(st.floats(1e-300, 1e300))
def test_log_is_accurate(x: float) -> None:
    assert math.isclose(portable.log(np.array([x]))[0], math.log(x), rel_tol=1e-15, abs_tol=2e-16)


def test_log_is_accurate_just_below_one() -> None:
    x = 1.0 - 2.0 ** -np.arange(1, 54)
    expected = [math.log1p(-(2.0 ** -float(n))) for n in range(1, 54)]
    np.testing.assert_allclose(portable.log(x), expected, rtol=1e-14)


def test_special_points_are_exact() -> None:
    assert portable.exp(np.array([0.0]))[0] == 1.0
    assert portable.log(np.array([1.0]))[0] == 0.0
    low = portable.exp(np.array([-701.0, -1e9, -np.inf]))
    assert (low == portable.exp(np.array([-700.0]))[0]).all()
    assert (low > 0).all()


def test_a_value_does_not_depend_on_its_neighbours() -> None:
    x = np.random.default_rng(1).uniform(-50, 50, 1003)
    alone = [float(portable.exp(x[i : i + 1])[0]) for i in range(x.size)]
    assert portable.exp(x).tolist() == alone
    y = np.abs(x)
    alone = [float(portable.log(y[i : i + 1])[0]) for i in range(y.size)]
    assert portable.log(y).tolist() == alone


def test_inputs_are_left_alone() -> None:
    x = np.linspace(0.5, 3.0, 7)
    before = x.copy()
    portable.exp(x)
    portable.log(x)
    assert (x == before).all()
