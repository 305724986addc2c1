"""Makes what a pass adds to trails and states of recurrent layers outputs of the graph."""

from __future__ import annotations

from onnx import TensorProto, helper

from edgedec.export.model import ExportModel
from edgedec.export.passes.infra import Pass, PassError, check_well_formed

KINDS = {"GatedDelta": ("delta", ("trail", "state")), "ShortConv": ("conv", ("trail",))}
"""Recurrent ops: the name of their ``States``, and the parts of these that a body returns, in order."""


class ReturnStates(Pass):
    """Adds the outputs ``delta_trail_new``, ``delta_state_new`` and ``conv_trail_new``.

    The trail's is f32[L, N, row], a row a token of the pass; the state's f32[L, 1, state]. Bodies of standard
    ops cannot write an input: the caller must store what they return. The kernels write the inputs, and N and
    the 1 are 0.
    """

    def call(self, model: ExportModel) -> bool:
        modified = False
        sizes = {value.name: value.type.tensor_type.shape.dim[-1].dim_value for value in model.inputs}
        for op, (kind, parts) in KINDS.items():
            nodes = [node for node in model.nodes if node.op_type == op]
            if not nodes or any(len(node.output) > 1 for node in nodes):
                continue
            modified = True
            for part in parts:
                name = returned(kind, part)
                for node in nodes:
                    node.output.append(f"{node.name}.{name}")
                outputs = [node.output[-1] for node in nodes]
                model.nodes.append(helper.make_node("Concat", outputs, [name], name=name, axis=0))
                shape = [len(nodes), f"new_{part}", sizes[f"{kind}_{part}"]]
                model.outputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))
        return modified

    def ensures(self, model: ExportModel) -> None:
        check_well_formed(model)
        for node in model.nodes:
            if node.op_type in KINDS and len(node.output) != 1 + len(KINDS[node.op_type][1]):
                raise PassError("a recurrent layer keeps its states to itself")


def returned(kind: str, part: str) -> str:
    """Return the name of the output for a part of a kind of ``States``."""
    return f"{kind}_{part}_new"
