from __future__ import annotations

import onnx
import pytest

from edgedec.export.model import attributes
from edgedec.export.passes.fuse_gated_mlp import FuseGatedMlp
from edgedec.export.passes.infra import PassError, run_passes
from tests.export.graphs import kinds, linear, make, matrix, node


def silu_nodes(*, bias: str = "") -> list[onnx.NodeProto]:
    return [
        linear("gate", "x", "wg"),
        linear("up", "x", "wu", bias=bias),
        node("Sigmoid", "sigmoid", "gate", domain=""),
        node("Mul", "active", "gate", "sigmoid", domain=""),
        node("Mul", "gated", "active", "up", domain=""),
    ]


def test_silu() -> None:
    model = make(silu_nodes(), ["gated"], wg=matrix(), wu=matrix())
    assert run_passes(model, [FuseGatedMlp()]) == ["FuseGatedMlp"]
    (fused,) = model.nodes
    assert fused.op_type == "GatedMLP"
    assert list(fused.input) == ["x", "wg", "wu"]
    assert attributes(fused) == {"formats": "q4_0,q4_0", "rows": 32, "cols": 64, "activation": "silu"}


@pytest.mark.parametrize("approximate", ["tanh", "none"])
def test_gelu_only_in_its_tanh_form(approximate: str) -> None:
    nodes = [
        linear("gate", "x", "wg"),
        linear("up", "x", "wu"),
        node("Gelu", "active", "gate", domain="", approximate=approximate),
        node("Mul", "gated", "active", "up", domain=""),
    ]
    model = make(nodes, ["gated"], wg=matrix(), wu=matrix())
    assert FuseGatedMlp().call(model) == (approximate == "tanh")
    assert ("GatedMLP" in kinds(model)) == (approximate == "tanh")


def test_a_gate_that_is_read_elsewhere_is_an_error() -> None:
    model = make(silu_nodes(), ["gated", "gate"], wg=matrix(), wu=matrix())
    with pytest.raises(PassError, match="after pass FuseGatedMlp: sigmoid is part of an MLP"):
        run_passes(model, [FuseGatedMlp()])


def test_a_bias_is_not_dropped() -> None:
    model = make(silu_nodes(bias="b"), ["gated"], wg=matrix(), wu=matrix(), b=matrix())
    assert not FuseGatedMlp().call(model)
    assert len(model.nodes) == 5
