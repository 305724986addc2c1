"""Fuses act(gate x) * (up x) into GatedMLP, which never writes the two halves to memory."""

from __future__ import annotations

from typing import Any

import onnx
from onnx import helper

from edgedec.export.model import DOMAIN, ExportModel, attributes
from edgedec.export.passes.infra import Pass, PassError, check_well_formed

_PARTS = frozenset({"Sigmoid", "Gelu"})


class FuseGatedMlp(Pass):
    """Mul(act(QuantLinear(x, gate)), QuantLinear(x, up)) -> GatedMLP(x, gate, up), for silu and tanh-gelu."""

    def call(self, model: ExportModel) -> bool:
        modified = False
        for product in [node for node in model.nodes if node.op_type == "Mul"]:
            match = _match(product, model.producers(), model.uses())
            if match is not None:
                gate, up, inner, activation = match
                model.replace([gate, up, *inner, product], product, _fuse(gate, up, product, activation))
                modified = True
        return modified

    def ensures(self, model: ExportModel) -> None:
        check_well_formed(model)
        if left := [node.name for node in model.nodes if node.op_type in _PARTS]:
            raise PassError(f"{left[0]} is part of an MLP that was not recognised")


def _match(
    product: onnx.NodeProto, producers: dict[str, onnx.NodeProto], uses: dict[str, int]
) -> tuple[onnx.NodeProto, onnx.NodeProto, list[onnx.NodeProto], str] | None:
    """Return gate, up, the nodes of the activation and its name; None if ``product`` is no gated MLP."""
    active, up = (producers.get(name) for name in product.input)
    if active is None or up is None or uses[active.output[0]] != 1:
        return None
    if active.op_type == "Gelu" and attributes(active).get("approximate") == "tanh":
        gate, inner, activation, reads = producers.get(active.input[0]), [active], "gelu_tanh", 1
    elif active.op_type == "Mul":
        gate, sigmoid = (producers.get(name) for name in active.input)
        if sigmoid is None or sigmoid.op_type != "Sigmoid" or sigmoid.input[0] != active.input[0]:
            return None
        inner, activation, reads = [sigmoid, active], "silu", 2
    else:
        return None
    if gate is None or not (_plain(gate) and _plain(up)) or gate.input[0] != up.input[0]:
        return None
    if uses[gate.output[0]] != reads or uses[up.output[0]] != 1:
        return None
    return gate, up, inner, activation


def _plain(node: onnx.NodeProto) -> bool:
    """Return whether ``node`` is a linear with one weight, one term, no bias and no residual."""
    if node.op_type != "QuantLinear" or attributes(node)["terms"] != 1:
        return False
    return len(node.input) == 4 and not node.input[1] and not node.input[2]


def _fuse(
    gate: onnx.NodeProto, up: onnx.NodeProto, product: onnx.NodeProto, activation: str
) -> onnx.NodeProto:
    attrs: list[dict[str, Any]] = [attributes(gate), attributes(up)]
    return helper.make_node(
        "GatedMLP",
        [gate.input[0], gate.input[3], up.input[3]],
        list(product.output),
        name=product.name,
        domain=DOMAIN,
        formats=",".join(attr["formats"] for attr in attrs),
        rows=attrs[0]["rows"][0],
        cols=attrs[0]["cols"],
        activation=activation,
    )
