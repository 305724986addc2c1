"""GatedMLP on a GPU: the bits of the CPU's reference row."""

from __future__ import annotations

import numpy as np
import pytest

from edgedec.backends.gpu.device import GpuDevice
from tests.gpu import cases, linear_cases
from tests.kernels.quant_rows import random_packed
from tests.kernels.test_gated_product import run, session

ACTIVATION = pytest.mark.parametrize("activation", [0, 1, 2], ids=["silu", "gelu", "clamped"])


@ACTIVATION
def test_the_activation_has_the_bits_of_the_cpu(device: GpuDevice, activation: int) -> None:
    rng = np.random.default_rng(0)
    made = [
        linear_cases.gated_case(columns, m, activation, rng)
        for columns, m in ((1, 1), (63, 3), (64, 2), (200, 9))
    ]
    assert list(cases.differences(device, made)) == []


@pytest.mark.parametrize(("activation", "format"), enumerate(["q4_k", "q8_0", "mxfp4"]))
@pytest.mark.parametrize(("rows", "m"), [(1, 1), (16, 19), (64, 70)])
def test_both_products_in_one_dispatch_have_the_bits_of_the_op(
    device: GpuDevice, activation: int, format: str, rows: int, m: int
) -> None:
    if "SwiftShader" in device.adapter.name and (format == "q4_k" or rows == 64):
        pytest.skip("SwiftShader's compiler takes minutes and over 13 GB for this kernel")
    gate, up = (random_packed(format, 37, 256, seed) for seed in (1, 2))
    x = linear_cases.activations(m, 256, np.random.default_rng(m))
    case = linear_cases.gated_linear_case(gate, up, x, activation, rows, first=5)
    assert list(cases.differences(device, [case])) == []


@pytest.mark.parametrize("format", ["f16", "bf16"])
def test_products_in_floats_too(device: GpuDevice, format: str) -> None:
    gate, up = (random_packed(format, 37, 100, seed) for seed in (1, 2))
    x = linear_cases.activations(19, 100, np.random.default_rng(3))
    assert list(cases.differences(device, [linear_cases.gated_linear_case(gate, up, x, 0, 16)])) == []


@pytest.mark.slow
@ACTIVATION
def test_ten_thousand_rows(device: GpuDevice, activation: int) -> None:
    rng = np.random.default_rng(1)
    made = (
        linear_cases.gated_case(columns, 100, activation, rng) for columns in (33, 128) for _ in range(50)
    )
    assert list(cases.differences(device, made)) == []


@pytest.mark.parametrize("activation", ["silu", "gelu_tanh", "sigmoid"])
@pytest.mark.parametrize("parts", [1, 3])
def test_a_product_reads_values_out_of_wider_rows(device: GpuDevice, activation: str, parts: int) -> None:
    rng, columns, rows = np.random.default_rng(0), 70, 4
    wide = rng.normal(0, 2, (rows, parts * columns)).astype(np.float32)
    gate = rng.normal(0, 3, (rows, columns)).astype(np.float32)
    first = (parts - 1) * columns
    values = np.ascontiguousarray(wide[:, first : first + columns])
    expected = run(session(activation, kernels=True), values, gate)
    consts = {"COLUMNS": columns, "FIRST": first, "STRIDE": parts * columns}
    kind = {"GELU": activation == "gelu_tanh", "SIGMOID": activation == "sigmoid"}
    case = cases.KernelCase(
        "gated_mlp/gated_product",
        consts | kind,
        (wide, gate, cases.empty(gate.size)),
        {3: expected},
        (2, rows, 1),
        {"tokens": rows},
    )
    assert list(cases.differences(device, [case])) == []
