"""GatedProduct: its definition, the same bits for every row whatever stands beside it, and its body."""

from __future__ import annotations

import numpy as np
import onnxruntime as ort
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper

from edgedec.export.model import DOMAIN, IR_VERSION, OPSET
from edgedec.export.portable import attach_bodies
from edgedec.kernels import library
from tests.export.graphs import node
from tests.kernels.quant_rows import activated
from tests.portable.runner import options

F32 = NDArray[np.float32]
ACTIVATIONS = ["sigmoid", "silu", "gelu_tanh", "clamped_silu"]


def session(activation: str, *, kernels: bool) -> ort.InferenceSession:
    product = node("GatedProduct", "y", "values", "gate", activation=activation)
    functions = attach_bodies([product])
    values = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("values", "gate", "y")
    ]
    graph = helper.make_graph([product], "one", values[:2], values[2:])
    opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(DOMAIN, 1)]
    model = helper.make_model(graph, functions=functions, opset_imports=opsets, ir_version=IR_VERSION)
    providers = ["CPUExecutionProvider"]
    return ort.InferenceSession(model.SerializeToString(), options(kernels=kernels), providers=providers)


def run(one: ort.InferenceSession, values: F32, gate: F32) -> F32:
    found: F32 = one.run(None, {"values": values, "gate": gate})[0]
    return found


def inputs(rows: int, columns: int) -> tuple[F32, F32]:
    rng = np.random.default_rng(rows * columns)
    values, gate = (rng.normal(0, 3, (rows, columns)).astype(np.float32) for _ in range(2))
    return values, gate


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("kernels", [True, False])
def test_its_definition(activation: str, kernels: bool) -> None:
    values, gate = inputs(7, 45)
    wide = gate.astype(np.float64)
    sigmoid = values / (1 + np.exp(-wide))
    expected = sigmoid if activation == "sigmoid" else activated(activation, wide, values.astype(np.float64))
    got = run(session(activation, kernels=kernels), values, gate)
    np.testing.assert_allclose(got, expected, rtol=4e-6, atol=2e-6)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_a_row_has_the_same_bits_alone(activation: str) -> None:
    """Enough rows for several tasks, of a width that fills no vector."""
    values, gate = inputs(517, 45)
    one = session(activation, kernels=True)
    whole = run(one, values, gate)
    for row in (0, 1, 181, 182, 516):
        np.testing.assert_array_equal(run(one, values[row : row + 1], gate[row : row + 1])[0], whole[row])


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_every_row_has_the_same_bits(activation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    values, gate = inputs(33, 45)
    found = []
    for row in library.available():
        monkeypatch.setenv("EDGEDEC_ISA", row)
        found.append(run(session(activation, kernels=True), values, gate).tobytes())
    assert len(set(found)) == 1


def test_other_shapes_are_refused() -> None:
    with pytest.raises(Exception, match="different shapes"):
        run(session("silu", kernels=True), *inputs(2, 32)[:1], inputs(3, 32)[1])
    assert run(session("silu", kernels=True), *inputs(0, 32)).shape == (0, 32)
