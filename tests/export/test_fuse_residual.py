from __future__ import annotations

import onnx
import pytest

from edgedec.export.passes.fuse_residual import FuseResidual
from edgedec.export.passes.infra import PassError, run_passes
from tests.export.graphs import kinds, linear, make, matrix, node, vector


@pytest.mark.parametrize("order", [("x", "y"), ("y", "x")])
def test_into_a_linear(order: tuple[str, str]) -> None:
    model = make(
        [linear("y", "x", "w", bias="b"), node("Add", "z", *order, domain="")], ["z"], w=matrix(), b=vector(1)
    )
    assert run_passes(model, [FuseResidual()]) == ["FuseResidual"]
    (fused,) = model.nodes
    assert list(fused.input) == ["x", "b", "x", "w"]
    assert list(fused.output) == ["z"]


def test_into_a_norm() -> None:
    nodes = [node("RMSNorm", "y", "x", "w", epsilon=1e-6), node("Add", "z", "x", "y", domain="")]
    model = make(nodes, ["z"], w=vector(1))
    assert FuseResidual().call(model)
    assert [list(n.input) for n in model.nodes] == [["x", "w", "x"]]
    assert model.nodes[0].attribute[0].name == "epsilon"


def test_two_adds_in_a_row_keep_their_order() -> None:
    nodes = [
        linear("a", "x", "wa"),
        node("Add", "b", "x", "a", domain=""),
        linear("c", "b", "wc"),
        node("Add", "d", "b", "c", domain=""),
    ]
    model = make(nodes, ["d"], wa=matrix(), wc=matrix())
    assert FuseResidual().call(model)
    assert [(list(n.input), list(n.output)) for n in model.nodes] == [
        (["x", "", "x", "wa"], ["b"]),
        (["b", "", "b", "wc"], ["d"]),
    ]


def blocked() -> dict[str, list[onnx.NodeProto]]:
    return {
        "already has one": [linear("y", "x", "w", residual="x"), node("Add", "z", "x", "y", domain="")],
        "read twice": [linear("y", "x", "w"), node("Add", "z", "y", "y", domain="")],
        "not a linear": [node("Identity", "y", "w", domain=""), node("Add", "z", "x", "y", domain="")],
    }


@pytest.mark.parametrize("case", blocked())
def test_left_alone_and_reported(case: str) -> None:
    model = make(blocked()[case], ["z"], w=matrix())
    before = kinds(model)
    with pytest.raises(PassError, match="after pass FuseResidual: z was not absorbed"):
        run_passes(model, [FuseResidual()])
    assert kinds(model) == before
