"""QuantLinear and its quantising of activations on a GPU: the bits of the CPU's reference row."""

from __future__ import annotations

import numpy as np
import pytest

from edgedec.backends.gpu.device import GpuDevice
from tests.gpu import cases, linear_cases
from tests.kernels.quant_rows import FORMATS, random_packed


@pytest.mark.parametrize("terms", [1, 2])
def test_quantising_has_the_bits_of_the_cpu(device: GpuDevice, terms: int) -> None:
    rng = np.random.default_rng(terms)
    shapes = [(1, 1), (2, 31), (1, 256), (5, 577)]
    made = [linear_cases.quantise_case(linear_cases.activations(m, cols, rng), terms) for m, cols in shapes]
    assert list(cases.differences(device, made)) == []


def test_a_group_that_holds_no_number_has_no_scale(device: GpuDevice) -> None:
    x = np.ones((4, 100), np.float32)
    x[0, 3], x[1, 40], x[2, 99] = np.inf, np.nan, -np.inf
    with np.errstate(invalid="ignore"):
        case = linear_cases.quantise_case(x, 2)
    assert not list(cases.differences(device, [case]))


@pytest.mark.parametrize("format", FORMATS)
def test_linear_has_the_bits_of_the_cpu(device: GpuDevice, format: str) -> None:
    made = list(linear_cases.linear_cases(format, 2, 3, seed=0))
    assert list(cases.differences(device, made)) == []


def test_extreme_quants_do_not_overflow(device: GpuDevice) -> None:
    rng = np.random.default_rng(0)
    for format in ("q6_k", "q8_0", "q2_k"):
        w = random_packed(format, 16, 256, 1)
        w.data[:, 64:] = 0x80
        x = np.full((2, 256), -1.0, np.float32)
        assert not list(cases.differences(device, [linear_cases.linear_case(w, x, rng)])), format


@pytest.mark.slow
def test_ten_thousand_groups_of_activations(device: GpuDevice) -> None:
    rng = np.random.default_rng(3)
    count = 0
    for cols in (32, 100, 576, 960):
        for _ in range(25):
            made = linear_cases.quantise_case(linear_cases.activations(10, cols, rng), 2)
            assert not list(cases.differences(device, [made]))
            count += 10 * 2 * -(-cols // 32)
    assert count >= 10_000


@pytest.mark.slow
@pytest.mark.parametrize("format", FORMATS)
def test_ten_thousand_products(device: GpuDevice, format: str) -> None:
    """Seven hundred for each of the fifteen formats."""
    made = linear_cases.linear_cases(format, 14, 50, seed=1)
    assert list(cases.differences(device, made)) == []
