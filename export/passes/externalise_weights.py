"""Assigns every large weight an offset in weights.bin, in the order of first use."""

from __future__ import annotations

from edgedec.export.model import ExpertsWeight, ExportModel, VectorWeight, Weight
from edgedec.export.passes.infra import Pass, PassError, check_well_formed
from edgedec.kernels.packing.experts import EXPERT_ALIGNMENT, PART_ALIGNMENT

_SMALLEST = 1024
"""Vectors below this many bytes stay in model.onnx."""


class ExternaliseWeights(Pass):
    """Assigns aligned offsets in the order of first use, so that a pass reads the file front to back."""

    def requires(self, model: ExportModel) -> None:
        check_well_formed(model)
        if model.placements:
            raise PassError("weights already have places")

    def call(self, model: ExportModel) -> bool:
        end = 0
        for name in (name for node in model.nodes for name in node.input):
            weight = model.weights.get(name)
            if weight is None or name in model.placements:
                continue
            if not isinstance(weight, VectorWeight) or weight.nbytes >= _SMALLEST:
                offset = -(-end // alignment(weight)) * alignment(weight)
                model.placements[name] = offset
                end = offset + weight.nbytes
        return bool(model.placements)

    def ensures(self, model: ExportModel) -> None:
        check_well_formed(model)
        end = 0
        for name, offset in model.placements.items():
            if offset % alignment(model.weights[name]) or offset < end:
                raise PassError(f"weight {name} is misplaced at {offset}")
            end = offset + model.weights[name].nbytes
        packed = {name for name, weight in model.weights.items() if not isinstance(weight, VectorWeight)}
        if inside := packed - model.placements.keys():
            raise PassError(f"weight {min(inside)} has no place")


def alignment(weight: Weight) -> int:
    """Return the bytes of which a weight's offset in weights.bin is a multiple.

    For matrices and vectors it is a cache line, and an AVX-512 register. ONNX Runtime maps external data at
    any offset without a copy.
    """
    return EXPERT_ALIGNMENT if isinstance(weight, ExpertsWeight) else PART_ALIGNMENT
