"""GatedMLP on a GPU: the bits of the CPU's reference row."""

from __future__ import annotations

import numpy as np
import pytest

from edgedec.backends.gpu.device import GpuDevice
from tests.gpu import adapters, cases, linear_cases

GELU = pytest.mark.parametrize("gelu", [False, True], ids=["silu", "gelu"])


@pytest.fixture(params=adapters.found(), ids=lambda one: one.name.split()[0])
def device(request: pytest.FixtureRequest) -> GpuDevice:
    return adapters.opened(request.param)


@GELU
def test_the_activation_has_the_bits_of_the_cpu(device: GpuDevice, gelu: bool) -> None:
    rng = np.random.default_rng(0)
    made = [
        linear_cases.gated_case(columns, m, gelu, rng) for columns, m in ((1, 1), (63, 3), (64, 2), (200, 9))
    ]
    assert list(cases.differences(device, made)) == []


@pytest.mark.slow
@GELU
def test_ten_thousand_rows(device: GpuDevice, gelu: bool) -> None:
    rng = np.random.default_rng(1)
    made = (linear_cases.gated_case(columns, 100, gelu, rng) for columns in (33, 128) for _ in range(50))
    assert list(cases.differences(device, made)) == []
