"""A drafting head in ONNX Runtime: one decoder layer over the target's hidden states, with its own cache."""

from __future__ import annotations

from pathlib import Path

from edgedec.backends.onnx.layer_forward import LayerGraph, LayerModel
from edgedec.bundle.head_facts import GRAPH, HeadFacts


class HeadModel(LayerModel):
    """A drafting head for a model of ``vocab_size`` tokens. See ``LayerModel``."""

    def __init__(
        self, folder: Path, target: Path, facts: HeadFacts, vocab_size: int, *, threads: int | None = None
    ) -> None:
        self.facts = facts
        graph = LayerGraph(
            GRAPH,
            "the drafting head",
            facts.spec,
            facts.width,
            vocab_size,
            {} if facts.own_table else {"table": facts.table},
            described="the head that its manifest describes",
        )
        super().__init__(folder, target, graph, threads)
        # Rows of a table of its own are mapped as they are read.
        self.weight_bytes -= facts.table.nbytes if facts.own_table else 0
        self.reads = {
            "always": self.weight_bytes - facts.fc_bytes - facts.head_bytes,
            "committed": facts.fc_bytes,
            "head": facts.head_bytes,
            "table": facts.table.nbytes,
        }
