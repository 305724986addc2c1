"""Fuses linears with the same input and concatenated results into one QuantLinear."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import helper

from edgedec.export.model import DOMAIN, ExportModel, VectorWeight, attributes
from edgedec.export.passes.infra import Pass, PassError, check_well_formed


class FuseQkv(Pass):
    """Concat(QuantLinear(x, a), QuantLinear(x, b), ...) -> QuantLinear(x, a, b, ...).

    Biases are concatenated.
    """

    def call(self, model: ExportModel) -> bool:
        modified = False
        for concat in [node for node in model.nodes if node.op_type == "Concat"]:
            producers, uses = model.producers(), model.uses()
            linears = [producers[name] for name in concat.input if name in producers]
            if len(linears) == len(concat.input) and _fusable(linears, uses):
                model.replace([*linears, concat], concat, _fuse(model, linears, concat))
                modified = True
        model.drop_unused_weights()
        return modified

    def ensures(self, model: ExportModel) -> None:
        check_well_formed(model)
        producers = model.producers()
        for node in model.nodes:
            if node.op_type == "TreeAttention" and producers[node.input[0]].op_type != "QuantLinear":
                raise PassError(f"{node.name} is not fed by one QuantLinear")


def _fusable(linears: list[onnx.NodeProto], uses: dict[str, int]) -> bool:
    return all(
        node.op_type == "QuantLinear"
        and not node.input[2]
        and node.input[0] == linears[0].input[0]
        and attributes(node)["terms"] == attributes(linears[0])["terms"]
        and uses[node.output[0]] == 1
        for node in linears
    )


def _fuse(model: ExportModel, linears: list[onnx.NodeProto], concat: onnx.NodeProto) -> onnx.NodeProto:
    attrs: list[dict[str, Any]] = [attributes(node) for node in linears]
    formats = ",".join(attr["formats"] for attr in attrs)
    rows = [count for attr in attrs for count in attr["rows"]]
    bias = ""
    if any(node.input[1] for node in linears):
        bias = concat.name + ".bias"
        parts = [_bias(model, node, sum(attr["rows"])) for node, attr in zip(linears, attrs, strict=True)]
        model.weights[bias] = VectorWeight(np.concatenate(parts))
    weights = [name for node in linears for name in node.input[3:]]
    return helper.make_node(
        "QuantLinear",
        [linears[0].input[0], bias, "", *weights],
        list(concat.output),
        name=concat.name,
        domain=DOMAIN,
        formats=formats,
        rows=rows,
        cols=attrs[0]["cols"],
        terms=attrs[0]["terms"],
    )


def _bias(model: ExportModel, node: onnx.NodeProto, rows: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    if not node.input[1]:
        return np.zeros(rows, dtype=np.float32)
    weight = model.weights[node.input[1]]
    if not isinstance(weight, VectorWeight):
        raise PassError(f"the bias of {node.name} is not a vector")
    return weight.values
