"""The MTP layer of a model in ONNX Runtime: a decoder layer with its own cache, and the target's head."""

from __future__ import annotations

from pathlib import Path

from edgedec.backends.onnx.layer_forward import LayerForward, LayerGraph, LayerModel
from edgedec.bundle.mtp_facts import GRAPH, MtpFacts
from edgedec.core.ledger import Ledger
from edgedec.core.rows import Keep


class MtpModel(LayerModel):
    """An MTP layer, with all of its experts. It reads the target's embedding and head. See ``LayerModel``."""

    def __init__(self, folder: Path, target: Path, facts: MtpFacts, *, threads: int | None = None) -> None:
        self.facts = facts
        tables = {"table": facts.table, "head": facts.head}
        graph = LayerGraph(GRAPH, "the MTP drafter", facts.spec, facts.hidden, facts.ids, tables, trims=True)
        super().__init__(folder, target, graph, threads)

    def forward(self, capacity: int, ledger: Ledger | None = None) -> MtpForward:
        """See ``LayerForward``."""
        return MtpForward(self, capacity, ledger)


class MtpForward(LayerForward):
    """One sequence over an ``MtpModel``."""

    def __init__(self, model: MtpModel, capacity: int, ledger: Ledger | None) -> None:
        super().__init__(model, capacity, ledger)
        self._facts = model.facts

    def _pass_bytes(self, tokens: int, committed: int, rows: int, kept: Keep | None) -> int:
        head = self._facts.head.nbytes if rows else 0
        if kept is not None:
            head = head * len(kept) // self._facts.ids
        return int(self.spec.read_bytes(self._weight_bytes, tokens)) + head

    @property
    def _embedding_bytes(self) -> int:
        apart = self._facts.table_offset != self._facts.head_offset
        return self._facts.table.nbytes if apart else 0
