"""EdgeDec within a budget of memory as a side of a comparison: one way to draft, a process of its own.

Unlike the sides that share a process it keeps its cache from turn to turn, as a chat does, and reads of a
prompt only what is new.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from edgedec.bench.levels import Level, drafts_end
from edgedec.bench.peers import edgedec_drafts_peer as unbounded
from edgedec.core.errors import MemoryBudgetError
from edgedec.core.manifest import WEIGHTS
from edgedec.runtime.budget import within
from edgedec.runtime.drafting import OFF, Drafting
from edgedec.runtime.loaded_model import LoadedModel
from edgedec.telemetry.process import mapped_rss_bytes


class Peer(unbounded.Peer):
    def open(self, **settings: Any) -> dict[str, Any]:
        """Load the model and plan for the memory of ``level`` (the fields of a ``Level``), in which it drafts
        as ``draft`` says; ``drawing`` and ``elastic`` as for ``within``. Other settings are
        those of sides without a budget.

        Of the answer: ``capacity``, ``memory`` (the plan) and ``drafts_end`` (see ``levels``), or ``refused``
        when the budget is too small for anything.
        """
        names = ("level", "draft", "drawing", "elastic")
        level, draft, drawing, elastic = (settings.pop(name) for name in names)
        facts = self.load(**settings)
        self._bundle = Path(settings["model"]).resolve().name
        asked = Drafting(draft, self.most)
        self._drafter = super().open_draft(asked.models[0]) if asked.models else None
        self._latest: unbounded.Mode | None = None
        try:
            budget = within(
                Level(**level).budget, self.model, asked,
                elastic=elastic, drawing=drawing, drafter=self._drafter,
            )  # fmt: skip
        except MemoryBudgetError as error:
            return {**facts, "refused": error.message}
        choice = budget.plan.choice
        if not choice.model_drafts:
            self._drafter = None
        self.model = replace(self.model, kv=choice.kv)
        self._drafting = budget.drafting(asked)
        self.warm_up()
        end = drafts_end(budget.known, budget.wanted, elastic=elastic)
        memory = {**budget.as_json(), "wanted": {"kv": budget.wanted.kv, "context": budget.wanted.context}}
        return {**facts, "capacity": self.model.forward.capacity, "memory": memory, "drafts_end": end}

    def memory(self) -> dict[str, int]:
        """Bytes of the model's own weights that are resident now, not of one that drafts."""
        return {"weights_rss_bytes": mapped_rss_bytes(f"{self._bundle}/{WEIGHTS}")}

    def drafting(self, mode: str) -> Drafting:
        """What was asked for, as far as it fits, whatever ``mode`` but "off" says."""
        return Drafting(OFF) if mode == OFF else self._drafting

    def open_draft(self, name: str) -> LoadedModel:
        return self._drafter or super().open_draft(name)

    def show_prompt(self, used: unbounded.Mode, tokens: list[int]) -> None:
        """What this engine has in the cache stays: of a prompt it reads what is new."""
        if used is not self._latest:
            used.engine.reset()
            self._latest = used
