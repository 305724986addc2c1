"""A drafting head in ONNX Runtime: one decoder layer over the target's hidden states, with its own cache."""

from __future__ import annotations

from pathlib import Path

from edgedec.backends.onnx.layer_forward import LayerForward, LayerGraph, LayerModel
from edgedec.backends.onnx.step_buffers import HeadPass
from edgedec.bundle.head_facts import GRAPH, HeadFacts
from edgedec.core.ledger import Ledger
from edgedec.core.rows import Keep

__all__ = ["HeadForward", "HeadModel", "HeadPass"]


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

    def forward(self, capacity: int, ledger: Ledger | None = None) -> HeadForward:
        """See ``LayerForward``."""
        return HeadForward(self, capacity, ledger)


class HeadForward(LayerForward):
    """One sequence over a ``HeadModel``."""

    def __init__(self, model: HeadModel, capacity: int, ledger: Ledger | None) -> None:
        super().__init__(model, capacity, ledger)
        self._facts = model.facts

    def _pass_bytes(self, tokens: int, committed: int, rows: int, kept: Keep | None) -> int:
        unread = (0 if committed else self._facts.fc_bytes) + (0 if rows else self._facts.head_bytes)
        return self._weight_bytes - unread

    @property
    def _embedding_bytes(self) -> int:
        return self._facts.table.nbytes
