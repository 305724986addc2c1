"""Moves an Add after a linear, a norm or experts into it, as its residual."""

from __future__ import annotations

import onnx

from edgedec.export.model import ExportModel
from edgedec.export.passes.infra import Pass, PassError, check_well_formed

_SLOT = {"QuantLinear": 2, "RMSNorm": 2, "Experts": 5}
"""Position of the optional residual input of each op."""


class FuseResidual(Pass):
    """Add(x, op(...)) -> op(..., residual=x), for an op of ``_SLOT`` whose result nothing else reads."""

    def call(self, model: ExportModel) -> bool:
        modified = False
        for add in [node for node in model.nodes if node.op_type == "Add"]:
            producers, uses = model.producers(), model.uses()
            for residual, branch in ((0, 1), (1, 0)):
                node = producers.get(add.input[branch])
                if node is not None and _free(node) and uses[node.output[0]] == 1:
                    model.replace([node, add], add, _fuse(node, add, add.input[residual]))
                    modified = True
                    break
        return modified

    def ensures(self, model: ExportModel) -> None:
        check_well_formed(model)
        if left := [node.name for node in model.nodes if node.op_type == "Add"]:
            raise PassError(f"{left[0]} was not absorbed")


def _free(node: onnx.NodeProto) -> bool:
    slot = _SLOT.get(node.op_type)
    return slot is not None and (len(node.input) <= slot or not node.input[slot])


def _fuse(node: onnx.NodeProto, add: onnx.NodeProto, residual: str) -> onnx.NodeProto:
    slot = _SLOT[node.op_type]
    fused = onnx.NodeProto()
    fused.CopyFrom(node)
    inputs = [*node.input, *[""] * (slot + 1 - len(node.input))]
    inputs[slot] = residual
    del fused.input[:], fused.output[:]
    fused.input.extend(inputs)
    fused.output.extend(add.output)
    return fused
