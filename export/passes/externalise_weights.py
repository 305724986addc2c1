"""Assigns every large weight an offset in weights.bin, in the order of first use."""

from __future__ import annotations

from edgedec.export.model import ExportModel, PackedWeight
from edgedec.export.passes.infra import Pass, PassError, check_well_formed

ALIGNMENT = 64
"""Alignment in bytes: a cache line and an AVX-512 register.

ONNX Runtime maps external data at any offset without a copy.
"""
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
            if isinstance(weight, PackedWeight) or weight.nbytes >= _SMALLEST:
                offset = -(-end // ALIGNMENT) * ALIGNMENT
                model.placements[name] = offset
                end = offset + weight.nbytes
        return bool(model.placements)

    def ensures(self, model: ExportModel) -> None:
        check_well_formed(model)
        end = 0
        for name, offset in model.placements.items():
            if offset % ALIGNMENT or offset < end:
                raise PassError(f"weight {name} is misplaced at {offset}")
            end = offset + model.weights[name].nbytes
        if inside := [
            n for n, w in model.weights.items() if isinstance(w, PackedWeight) and n not in model.placements
        ]:
            raise PassError(f"weight {inside[0]} has no place")
