"""How a model runs, as values: its memory plan, its drafters' counts, and the figures of a reply."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import asdict
from typing import TYPE_CHECKING

from edgedec.core.cache_config import KvType
from edgedec.core.experts import StoreCounts
from edgedec.core.quick_dataclass import dataclass
from edgedec.memory.footprint import MemoryChoice
from edgedec.metrics.mbsu import Mbsu
from edgedec.metrics.measures import Energy
from edgedec.metrics.roofline import Roofline
from edgedec.system.memory import peak_rss_bytes

if TYPE_CHECKING:
    from edgedec.assemble.budget import Budget
    from edgedec.assemble.runner import Runner
    from edgedec.control.tally import Tally
    from edgedec.loaded_model import LoadedModel
    from edgedec.metrics.switched import SwitchRecord
    from edgedec.session.engine import ReplyEngine
    from edgedec.session.reply import Reply


@dataclass(frozen=True, slots=True)
class PlanStats:
    """A memory plan, and what of it has been in use so far. All sizes are in bytes."""

    budget: int
    """The most that the process may have resident."""
    planned: int
    """The most that it has by the plan."""
    parts: Mapping[str, int]
    """The plan by purpose."""
    choice: MemoryChoice
    given_up: tuple[str, ...]
    """A line for each part that was lowered to fit."""
    most_leased: Mapping[str, int]
    """The most that each part has leased at one time so far."""
    peak_rss: int
    """The most that the process has had resident so far."""

    @classmethod
    def of(cls, budget: Budget) -> PlanStats:
        """Take them from a budget in use."""
        plan = budget.plan
        return cls(
            plan.budget,
            plan.peak,
            dict(plan.parts),
            plan.choice,
            plan.given_up,
            budget.ledger.most(),
            peak_rss_bytes(),
        )

    @property
    def overrun(self) -> int:
        """Bytes that the process has had above the budget so far; 0 as promised."""
        return max(self.peak_rss - self.budget, 0)

    def as_json(self) -> dict[str, object]:
        """Return the plan as JSON fields."""
        return {
            "budget_bytes": self.budget,
            "planned_bytes": self.planned,
            "parts": dict(self.parts),
            "choice": asdict(self.choice),
            "given_up": list(self.given_up),
            "most_leased": dict(self.most_leased),
        }


@dataclass(frozen=True, slots=True)
class DraftStats:
    """The drafters in use, the bytes that each holds, and a copy of the counts of all drafts so far."""

    names: tuple[str, ...]
    nbytes: Mapping[str, int]
    tally: Tally


@dataclass(frozen=True, slots=True)
class ExpertStats:
    """Experts that are read from the disk, and what passes asked of them since the model was opened."""

    slots: int
    """Experts that are in memory at a time."""
    total: int
    """Experts of the model."""
    counts: StoreCounts

    @property
    def hit_rate(self) -> float | None:
        """The share of the experts of passes that were in memory; None before the first pass."""
        return self.counts.hits / self.counts.held if self.counts.held else None

    def as_json(self) -> dict[str, object]:
        """Return the counts as JSON fields."""
        rate = self.hit_rate
        return {
            "slots": self.slots,
            "total": self.total,
            "held": self.counts.held,
            "hits": self.counts.hits,
            "hit_rate": None if rate is None else round(rate, 6),
            "bytes_read": self.counts.bytes_read,
            "waited_s": round(self.counts.waited_s, 6),
        }


@dataclass(frozen=True, slots=True)
class ReplyFigures:
    """Figures of a reply beyond its times. Where a model elsewhere wrote of it, there is only ``energy``."""

    energy: Energy
    mbsu: Mbsu | None
    """The memory-bound speed-up; None for a single token."""
    roof: Roofline | None
    """The distance from the bandwidth; None while that is not known."""

    def as_json(self) -> dict[str, object]:
        """Return the figures as JSON fields."""
        return {
            "energy": self.energy.as_json(),
            "mbsu": self.mbsu and round(self.mbsu.streamed, 6),
            "mbsu_with_embedding": self.mbsu and round(self.mbsu.parameters, 6),
            "roof": self.roof and self.roof.as_json(),
        }


@dataclass(frozen=True, slots=True)
class ModelStats:
    """How an open model runs, and the figures of what it did so far."""

    isa: str
    """The kernel row that computes, or the name of another runtime."""
    threads: int
    load_s: float
    """Seconds that loading took."""
    context: int
    """Tokens that one conversation has room for."""
    kv: KvType | None
    """How the KV cache keeps keys and values; None where another runtime decides that."""
    nbytes: Mapping[str, int]
    """Bytes held by the model: "weights", "kv_cache" and others."""
    objective: str
    """The aim of drafts, "time" or "energy"."""
    power_source: str | None
    """The source of the joules that drafts are planned with, where they aim at energy."""
    power_notice: str | None
    """The same in one line."""
    drafts: DraftStats | None
    """None where nothing drafts."""
    plan: PlanStats | None
    """The memory plan; None without a budget."""
    switch: SwitchRecord | None
    """The account of the latest reply, where two models take turns."""
    reply: ReplyFigures | None
    """Figures of the reply that was asked about; None without one, and for one without tokens."""
    peak_rss_bytes: int
    """The most that the process has had resident so far."""
    experts: ExpertStats | None = None
    """Experts on the disk; None where all weights are in memory."""

    def as_json(self) -> dict[str, object]:
        """Return the figures as JSON fields."""
        drafts = self.drafts
        return {
            "draft": list(drafts.names) if drafts else [],
            **(drafts.tally.as_json() if drafts else {}),
            "draft_bytes": dict(drafts.nbytes) if drafts else {},
            "objective": self.objective,
            "pass_energy": self.power_source,
            **(self.reply.as_json() if self.reply else {}),
            "load_s": round(self.load_s, 6),
            "peak_rss_bytes": self.peak_rss_bytes,
            "context": self.context,
            "kv": self.kv,
            **({"memory": self.plan.as_json()} if self.plan else {}),
            **({"experts": self.experts.as_json()} if self.experts else {}),
            **({"switch": self.switch.as_json()} if self.switch else {}),
            "kv_cache_bytes": self.nbytes["kv_cache"],
            "threads": self.threads,
            "isa": self.isa,
        }


def model_stats(runner: Runner, engine: ReplyEngine, reply: Reply | None) -> ModelStats:
    """Gather the statistics of a model whose chats run in ``engine``; ``reply``: the one to have figures of.

    The energy of a reply takes a second where the idle power is not known yet.
    """
    model, speculation, power = runner.model, engine.home.speculation, runner.pass_energy
    return ModelStats(
        isa=model.isa,
        threads=model.threads,
        load_s=model.load_s,
        context=runner.forward.capacity,
        kv=runner.kv,
        nbytes=runner.forward.nbytes(),
        objective=runner.objective,
        power_source=power.source if power else None,
        power_notice=power.notice() if power else None,
        drafts=DraftStats(speculation.drafters, speculation.nbytes(), deepcopy(speculation.tally))
        if speculation
        else None,
        plan=PlanStats.of(runner.budget) if runner.budget else None,
        switch=engine.switched,
        reply=_figures(runner, engine, reply) if reply else None,
        peak_rss_bytes=peak_rss_bytes(),
        experts=_experts(model),
    )


def _experts(model: LoadedModel) -> ExpertStats | None:
    store = model.backend.experts
    return ExpertStats(store.slots, store.experts.total, store.counts()) if store else None


def _figures(runner: Runner, engine: ReplyEngine, reply: Reply) -> ReplyFigures | None:
    marks, stats, measures = reply.marks, reply.stats, runner.measures
    if marks is None:
        return None
    alone = not (engine.switched and engine.switched.elsewhere)  # the marks lack the passes of another place
    return ReplyFigures(
        measures.energy(marks, stats),
        measures.mbsu(marks, stats) if alone else None,
        measures.roofline(marks, stats) if alone else None,
    )
