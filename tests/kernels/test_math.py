"""Lane operations, exp and the activations: accuracy, and the same bits in every row."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pytest

from tests.kernels.float_rows import F32, call, float_rows, same_bits

MAPS = ["exp", "silu", "gelu_tanh", "tanh", "sqrt", "abs", "round", "to_ints"]
COMBINES = ["add", "sub", "mul", "div", "fma", "max", "min", "greater"]


def apply(row: str, function: str, x: F32) -> F32:
    out = np.full(len(x), np.float32(7))
    assert call("edgedec_math_map", row, function.encode(), x, out, len(x)) == 0
    return out


def all_exponents(seed: int, count: int) -> F32:
    """Random bit patterns: every exponent, subnormals, infinities and NaN."""
    bits = np.random.default_rng(seed).integers(0, 2**32, count, dtype=np.uint32)
    special = np.array(
        [0.0, -0.0, np.inf, -np.inf, np.nan, 0.5, 1.5, 2.5, -0.5, 65504, 65519, 65520], np.float32
    )
    bits[: len(special)] = special.view(np.uint32)
    return bits.view(np.float32)


def ulps(got: F32, exact: npt.NDArray[np.float64]) -> float:
    spacing = np.spacing(np.abs(exact).astype(np.float32)).astype(np.float64)
    return float(np.max(np.abs(got.astype(np.float64) - exact) / spacing))


@pytest.mark.parametrize("row", float_rows())
def test_exp_is_within_one_ulp(row: str) -> None:
    x = np.linspace(-87.3, 88.72, 200_003).astype(np.float32)
    assert ulps(apply(row, "exp", x), np.exp(x.astype(np.float64))) < 1.0


@pytest.mark.parametrize("row", float_rows())
def test_exp_at_the_ends_of_its_range(row: str) -> None:
    x = np.array([np.inf, 1e30, 88.73, -np.inf, -1e30, -104.0, 0.0, -0.0, np.nan], np.float32)
    expected = np.array([np.inf, np.inf, np.inf, 0, 0, 0, 1, 1, np.nan], np.float32)
    np.testing.assert_array_equal(apply(row, "exp", x), expected)
    subnormal = np.linspace(-103.5, -87.4, 4001).astype(np.float32)
    error = apply(row, "exp", subnormal).astype(np.float64) - np.exp(subnormal.astype(np.float64))
    assert np.max(np.abs(error)) < 1.5 * 2.0**-149


@pytest.mark.parametrize("row", float_rows())
def test_activations_follow_their_definitions(row: str) -> None:
    x = np.linspace(-30, 30, 60_001).astype(np.float32)
    wide = x.astype(np.float64)
    np.testing.assert_allclose(apply(row, "silu", x), wide / (1 + np.exp(-wide)), rtol=4e-7, atol=0)
    tanh = np.tanh(math.sqrt(2 / math.pi) * (wide + 0.044715 * wide**3))
    np.testing.assert_allclose(apply(row, "gelu_tanh", x), wide / 2 * (1 + tanh), rtol=4e-6, atol=2e-7)


@pytest.mark.parametrize("row", float_rows())
def test_tanh_and_its_limits(row: str) -> None:
    x = np.linspace(-20, 20, 80_001).astype(np.float32)
    error = apply(row, "tanh", x).astype(np.float64) - np.tanh(x.astype(np.float64))
    assert np.abs(error).max() < 2e-7
    ends = np.array([0, -np.inf, -1e30, 1e30, np.inf, np.nan], dtype=np.float32)
    np.testing.assert_array_equal(apply(row, "tanh", ends), [0, -1, -1, 1, 1, np.nan])


@pytest.mark.parametrize("row", float_rows())
@pytest.mark.parametrize("n", [0, 1, 15, 16, 17, 31, 33])
def test_partial_vectors_leave_the_rest_alone(row: str, n: int) -> None:
    x = np.linspace(-2, 2, 40).astype(np.float32)
    out = np.full(40, np.float32(7))
    assert call("edgedec_math_map", row, b"abs", x, out, n) == 0
    np.testing.assert_array_equal(out, np.where(np.arange(40) < n, np.abs(x), np.float32(7)))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("function", MAPS)
def test_every_row_has_the_bits_of_the_scalar_row(function: str, seed: int) -> None:
    x = all_exponents(seed, 65_536)
    if function == "to_ints":
        x = x[np.abs(x) < 2.0**31]
    elif function == "exp":
        x = np.concatenate([x, np.random.default_rng(seed).uniform(-110, 95, 65_536).astype(np.float32)])
    expected = apply("scalar", function, x)
    for row in float_rows()[1:]:
        assert same_bits(apply(row, function, x), expected), row


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("function", COMBINES)
def test_every_row_combines_with_the_bits_of_the_scalar_row(function: str, seed: int) -> None:
    a, b, c = (all_exponents(seed * 3 + i, 32_768) for i in range(3))
    with np.errstate(all="ignore"):
        near = np.random.default_rng(seed).standard_normal((3, 32_768)).astype(np.float32)
        near[2] = -(near[0] * near[1])  # what is left of a fused multiply-add is the rounding error
    results = []
    for row in float_rows():
        out = np.empty((2, 32_768), np.float32)
        for i, (x, y, z) in enumerate([(a, b, c), (near[0], near[1], near[2])]):
            assert call("edgedec_math_combine", row, function.encode(), x, y, z, out[i], 32_768) == 0
        results.append(out)
    for out in results[1:]:
        assert same_bits(out, results[0])


def test_fma_rounds_once() -> None:
    a = np.full(16, np.float32(1 + 2.0**-12))
    c = np.full(16, np.float32(-(1 + 2.0**-11)))
    for row in float_rows():
        out = np.empty(16, np.float32)
        assert call("edgedec_math_combine", row, b"fma", a, a, c, out, 16) == 0
        np.testing.assert_array_equal(out, np.float32(2.0**-24))


def fold(x: F32) -> F32:
    half = x.shape[-1] // 2
    return x[..., 0] if half == 0 else fold(x[..., :half] + x[..., half:])


@pytest.mark.parametrize("row", float_rows())
@pytest.mark.parametrize("seed", range(3))
def test_reductions_fold_in_the_canonical_order(row: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = (rng.standard_normal((64, 16)) * 10.0 ** rng.integers(-6, 6, (64, 16))).astype(np.float32)
    for function, expected in [
        ("reduce_add", fold(x)),
        ("reduce_add_each", fold(x)),
        ("reduce_max", x.max(axis=1)),
    ]:
        out = np.empty(64, np.float32)
        assert call("edgedec_math_map", row, function.encode(), x, out, x.size) == 0
        assert same_bits(out, expected), function


@pytest.mark.parametrize("row", float_rows())
def test_every_half_becomes_the_right_float(row: str) -> None:
    halves = np.arange(65_536, dtype=np.uint16)
    out = np.empty(65_536, np.float32)
    assert call("edgedec_math_from_half", row, halves, out, 65_536) == 0
    assert same_bits(out, halves.view(np.float16).astype(np.float32))


def half_neighbours() -> F32:
    """Each finite half, the midpoint to the next one, and the floats beside that midpoint; both signs."""
    value = np.arange(0x7C00, dtype=np.uint16).view(np.float16).astype(np.float32)
    following = np.append(value[1:], np.float32(65536))
    middle = ((value.astype(np.float64) + following) / 2).astype(np.float32)
    below, above = (np.nextafter(middle, np.float32(to)) for to in (0, 1e6))
    positive = np.concatenate([value, middle, below, above])
    return np.ascontiguousarray(np.concatenate([positive, -positive]))


@pytest.mark.parametrize("row", float_rows())
def test_floats_become_halves_by_round_half_to_even(row: str) -> None:
    random = all_exponents(5, 65_536)
    for x in (half_neighbours(), random):
        out = np.empty(len(x), np.uint16)
        assert call("edgedec_math_to_half", row, x, out, len(x)) == 0
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            assert same_bits(out.view(np.float16), x.astype(np.float16))


@pytest.mark.parametrize("row", float_rows())
def test_nan_becomes_the_quiet_half_of_the_hardware(row: str) -> None:
    x = np.array([0x7F800001, 0xFFC12345, 0x7FFFFFFF, 0x7FA00000] * 4, np.uint32).view(np.float32)
    out = np.empty(16, np.uint16)
    assert call("edgedec_math_to_half", row, x, out, 16) == 0
    assert out[:4].tolist() == [0x7E00, 0xFE09, 0x7FFF, 0x7F00]


@pytest.mark.parametrize("seed", range(2))
def test_log_is_accurate_and_the_same_in_every_row(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = np.concatenate(
        [np.exp(rng.uniform(-700, 700, 20_000)), rng.uniform(0.5, 2, 20_000), [1.0, 152_064.0]]
    )
    results = []
    for row in float_rows():
        out = np.empty(len(x))
        assert call("edgedec_math_log", row, x, out, len(x)) == 0
        np.testing.assert_allclose(out, np.log(x), rtol=6e-16, atol=1e-17)
        results.append(out)
    assert results[0][-2] == 0.0
    assert all(same_bits(out, results[0]) for out in results)


@pytest.mark.parametrize("seed", range(2))
def test_sine_and_cosine_are_accurate_and_the_same_in_every_row(seed: int) -> None:
    rng = np.random.default_rng(seed)
    quarters = np.arange(-4000, 4000) * (math.pi / 4)
    x = np.concatenate(
        [rng.uniform(-1e6, 1e6, 50_000), rng.uniform(-8, 8, 20_000), quarters, [0.0, 1e6, -1e6]]
    )
    results = []
    for row in float_rows():
        sine, cosine = np.empty(len(x)), np.empty(len(x))
        assert call("edgedec_math_sincos", row, x, sine, cosine, len(x)) == 0
        np.testing.assert_allclose(sine, np.sin(x), rtol=0, atol=1e-15)
        np.testing.assert_allclose(cosine, np.cos(x), rtol=0, atol=1e-15)
        results.append(np.stack([sine, cosine]))
    assert all(same_bits(out, results[0]) for out in results)


def test_unknown_rows_and_functions_are_refused() -> None:
    x = np.zeros(16, np.float32)
    assert call("edgedec_math_map", "avx3", b"exp", x, x, 16) != 0
    assert call("edgedec_math_map", "scalar", b"tan", x, x, 16) != 0
