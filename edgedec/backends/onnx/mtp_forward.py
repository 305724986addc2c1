"""The MTP layer of a model in ONNX Runtime: a decoder layer with its own cache, and the target's head."""

from __future__ import annotations

from pathlib import Path

from edgedec.backends.onnx.layer_forward import LayerGraph, LayerModel
from edgedec.bundle.mtp_facts import GRAPH, MtpFacts


class MtpModel(LayerModel):
    """An MTP layer, with all of its experts. It reads the target's embedding and head. See ``LayerModel``."""

    def __init__(self, folder: Path, target: Path, facts: MtpFacts, *, threads: int | None = None) -> None:
        self.facts = facts
        tables = {"table": facts.table, "head": facts.head}
        graph = LayerGraph(GRAPH, "the MTP drafter", facts.spec, facts.hidden, facts.ids, tables, trims=True)
        super().__init__(folder, target, graph, threads)
        experts = facts.experts * facts.expert_bytes
        self.reads = {
            "always": self.weight_bytes - experts,
            "head": facts.head.nbytes,
            "experts": experts,
            "table": facts.table.nbytes if facts.table_offset != facts.head_offset else 0,
            "ids": facts.ids,
            "expert_count": facts.experts,
            "expert_chosen": facts.chosen,
        }
