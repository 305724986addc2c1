"""RotaryTable against float64 NumPy, across rows and splits."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from tests.kernels.float_rows import F32, call, float_rows, same_bits

I64 = npt.NDArray[np.int64]


def frequencies(d: int, base: float) -> F32:
    return (base ** (-np.arange(0, d, 2) / d)).astype(np.float32)


def table(row: str, positions: I64, inv_freq: F32) -> F32:
    d = 2 * len(inv_freq)
    out = np.full((len(positions), d), np.float32(np.nan))
    assert call("edgedec_rotary_table", row, positions, inv_freq, out, 0, len(positions), d) == 0
    return out


@pytest.mark.parametrize("row", float_rows())
@pytest.mark.parametrize("d", [2, 16, 64, 80, 128, 256])
@pytest.mark.parametrize("base", [1e4, 1e6])
def test_follows_the_definition(row: str, d: int, base: float) -> None:
    rng = np.random.default_rng(d)
    positions = np.concatenate([np.arange(40), rng.integers(0, 1_000_000, 60), [1_000_000]]).astype(np.int64)
    inv_freq = frequencies(d, base)
    angle = positions[:, None].astype(np.float64) * inv_freq.astype(np.float64)
    expected = np.concatenate([np.cos(angle), np.sin(angle)], axis=1)
    assert np.max(np.abs(table(row, positions, inv_freq) - expected)) <= 2.0**-25 + 1e-9


@pytest.mark.parametrize("seed", range(3))
def test_every_row_has_the_bits_of_the_scalar_row(seed: int) -> None:
    positions = np.random.default_rng(seed).integers(0, 1_000_000, 500)
    inv_freq = frequencies(128, 1e4)
    expected = table("scalar", positions, inv_freq)
    for row in float_rows()[1:]:
        assert same_bits(table(row, positions, inv_freq), expected), row


@pytest.mark.parametrize("row", float_rows())
@pytest.mark.parametrize("count", range(2, 17))
def test_a_row_does_not_see_its_neighbours(row: str, count: int) -> None:
    positions = np.random.default_rng(count).integers(0, 4096, count)
    inv_freq = frequencies(64, 1e4)
    alone = np.concatenate([table(row, positions[i : i + 1], inv_freq) for i in range(count)])
    assert same_bits(table(row, positions, inv_freq), alone)


@pytest.mark.parametrize("row", float_rows())
def test_a_range_touches_its_rows_only(row: str) -> None:
    positions, inv_freq = np.arange(9, dtype=np.int64), frequencies(16, 1e4)
    out = np.full((9, 16), np.float32(7))
    assert call("edgedec_rotary_table", row, positions, inv_freq, out, 3, 6, 16) == 0
    assert same_bits(out[3:6], table(row, positions, inv_freq)[3:6])
    assert np.all(out[:3] == 7)
    assert np.all(out[6:] == 7)


def test_unknown_rows_are_refused() -> None:
    positions, inv_freq, out = np.zeros(1, np.int64), np.ones(1, np.float32), np.zeros(2, np.float32)
    assert call("edgedec_rotary_table", "avx3", positions, inv_freq, out, 0, 1, 2) != 0
