"""RMSNorm and the gathering of rows in WGSL have the bits of the scalar row."""

from __future__ import annotations

import numpy as np
import pytest

from edgedec.backends.gpu.device import GpuDevice
from tests.gpu.cases import KernelCase, differences, empty
from tests.kernels.test_rms_norm import make, norm


def norm_case(seed: int, rows: int, dim: int, *, residual: bool, epsilon: float = 1e-6) -> KernelCase:
    x, weight, other = make(seed, rows, dim)
    expected = norm("scalar", x, weight, other if residual else None, epsilon)
    return KernelCase(
        "rms_norm/rms_norm",
        {"DIM": dim, "EPSILON": epsilon, "RESIDUAL": residual},
        (x, weight, other, empty(rows * dim)),
        {4: expected},
        (rows, 1, 1),
    )


@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("dim", [1, 17, 64, 640])
def test_a_norm_has_the_bits_of_the_scalar_row(dim: int, residual: bool, device: GpuDevice) -> None:
    assert not list(differences(device, [norm_case(dim, 5, dim, residual=residual)]))


def test_rows_are_copied(device: GpuDevice) -> None:
    x = np.random.default_rng(0).integers(0, 1 << 32, (7, 33), dtype=np.uint32)
    rows = np.array([6, 0, 3], np.uint32)
    out = np.zeros((3, 33), np.uint32)
    case = KernelCase(
        "gather_rows/gather_rows", {"DIM": 33}, (x, rows, out), {3: x[rows]}, (3, 1, 1), {"rows": 3}
    )
    assert not list(differences(device, [case]))


def test_rows_are_scaled(device: GpuDevice) -> None:
    x, _, _ = make(0, 5, 70)
    factor = np.float32([0.3])
    case = KernelCase(
        "rms_norm/scale", {"COLUMNS": 70}, (x, factor, empty(x.size)), {3: x * factor}, (2, 5, 1)
    )
    assert not list(differences(device, [case]))


@pytest.mark.slow
@pytest.mark.parametrize("dim", [16, 33, 576, 640, 1536])
def test_thousands_of_norms_have_the_bits_of_the_scalar_row(dim: int, device: GpuDevice) -> None:
    """A case is a row; 2,000 for each of five sizes."""
    cases = [norm_case(seed, 1000, dim, residual=bool(seed), epsilon=1e-5) for seed in range(2)]
    assert not list(differences(device, cases))
