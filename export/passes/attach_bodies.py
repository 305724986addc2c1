"""Gives every op of EdgeDec a body in standard ONNX ops."""

from __future__ import annotations

from edgedec.export.model import DOMAIN, ExportModel
from edgedec.export.passes.infra import Pass, PassError, check_well_formed
from edgedec.export.portable import attach_bodies


class AttachBodies(Pass):
    """Adds the model-local functions that a runtime without the kernels runs.

    Runs after the passes that change nodes.
    """

    def requires(self, model: ExportModel) -> None:
        check_well_formed(model)
        if model.functions:
            raise PassError("the ops already have bodies")

    def call(self, model: ExportModel) -> bool:
        model.functions = attach_bodies(model.nodes)
        return bool(model.functions)

    def ensures(self, model: ExportModel) -> None:
        check_well_formed(model)
        bodies = {(function.name, function.overload) for function in model.functions}
        for node in model.nodes:
            if node.domain == DOMAIN and (node.op_type, node.overload) not in bodies:
                raise PassError(f"{node.op_type} {node.name} has no body")
