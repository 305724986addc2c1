from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.reference import noise
from tests.sampling.drawing import numbers

SEEDS = st.integers(0, 2**64 - 1)
POSITIONS = st.integers(0, 2**31)


def test_known_values_do_not_change() -> None:
    """A saved session must go on with the same tokens after an update, so the generator is frozen."""
    assert [hex(int(b)) for b in noise.bits(0, 0, np.arange(3))] == FROZEN_ZERO
    assert [hex(int(b)) for b in noise.bits(2**64 - 1, 4095, np.array([0, 7, 151935]))] == FROZEN_LAST


FROZEN_ZERO = ["0x24966b0163607397", "0x99efe43abfc2e287", "0x831a92dcc313e97b"]
FROZEN_LAST = ["0xef0c735f762f63a7", "0x2761e8af66655709", "0xafa85c5b1795c425"]


@given(SEEDS, POSITIONS, st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=20))
def test_a_pure_function_of_seed_position_and_id(seed: int, position: int, ids: list[int]) -> None:
    together = noise.gumbel(seed, position, np.array(ids))
    alone = [float(noise.gumbel(seed, position, np.array([v], dtype=np.int32))[0]) for v in ids]
    assert together.tolist() == alone
    assert np.isfinite(together).all()


@given(SEEDS, POSITIONS, st.lists(st.integers(0, 2**31 - 1), max_size=70))
def test_the_core_has_the_same_noise(seed: int, position: int, ids: list[int]) -> None:
    array = np.array(ids, dtype=np.int64)
    for which, expected in ((2, noise.uniform), (3, noise.exponential)):
        assert numbers(which, array, seed, position).tolist() == expected(seed, position, array).tolist()


def test_the_extreme_bit_patterns_stay_finite(monkeypatch: pytest.MonkeyPatch) -> None:
    extremes = np.array([0, 2**64 - 1], dtype=np.uint64)
    monkeypatch.setattr(noise, "bits", lambda *_: extremes)
    low, high = noise.gumbel(0, 0, np.arange(2))
    assert low == pytest.approx(-math.log(53 * math.log(2)), rel=1e-12)
    assert high == pytest.approx(53 * math.log(2), rel=1e-12)


@pytest.mark.parametrize("axis", ["ids", "positions", "seeds"])
def test_uniform_along_every_axis(axis: str) -> None:
    """Kolmogorov-Smirnov on 20,000 values, the lag-one correlation, and each of the 64 bits."""
    n = 20_000
    raw = stream(axis, n)
    u = np.sort((raw >> np.uint64(12)).astype(np.float64) * 2.0**-52)
    grid = np.arange(1, n + 1) / n
    distance = max(np.abs(u - grid).max(), np.abs(u - grid + 1 / n).max())
    assert distance < 2.2 / math.sqrt(n)  # p = 1.2e-4
    centred = (raw >> np.uint64(12)).astype(np.float64) * 2.0**-52 - 0.5
    correlation = float((centred[:-1] * centred[1:]).mean() * 12)
    assert abs(correlation) < 4.0 / math.sqrt(n)
    ones = [(int(((raw >> np.uint64(b)) & np.uint64(1)).sum()) - n / 2) / math.sqrt(n / 4) for b in range(64)]
    assert max(abs(z) for z in ones) < 4.6


@pytest.mark.parametrize("axis", ["ids", "positions", "seeds"])
def test_neighbours_share_no_bits(axis: str) -> None:
    """Avalanche: neighbouring counters differ in 32 of 64 bits on average."""
    raw = stream(axis, 20_000)
    flipped = raw[:-1] ^ raw[1:]
    mean = np.mean([bin(int(x)).count("1") for x in flipped])
    assert abs(mean - 32) < 4 * 4 / math.sqrt(20_000)


def test_positions_are_not_shifted_copies() -> None:
    """No id of one position repeats a value of another position: the counters never run into each other."""
    values = np.concatenate([noise.bits(1, t, np.arange(2_000)) for t in range(50)])
    assert np.unique(values).size == values.size


def test_moments_are_gumbel() -> None:
    g = np.concatenate([noise.gumbel(9, t, np.arange(1_000)) for t in range(100)])
    assert abs(g.mean() - 0.5772156649) < 4 * math.pi / math.sqrt(6 * g.size)
    assert abs(g.var() - math.pi**2 / 6) < 0.06
    assert abs(np.mean(g < 0) - math.exp(-1)) < 0.01


def stream(axis: str, n: int) -> np.ndarray:
    one = np.array([3])
    if axis == "ids":
        return noise.bits(5, 17, np.arange(n))
    if axis == "positions":
        return np.concatenate([noise.bits(5, t, one) for t in range(n)])
    return np.concatenate([noise.bits(s, 17, one) for s in range(n)])
