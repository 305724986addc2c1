"""A loaded model, and what may draft for it, made to fit a budget of memory.

What the process holds once its models are loaded is measured; what will come on top is computed, leased from
one ledger, and given up in a stated order where it does not fit.
"""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from edgedec.core.cache_config import CacheConfig
from edgedec.core.errors import Remedy, UnsupportedError
from edgedec.core.manifest import WEIGHTS
from edgedec.core.when_full import SPECKV, STOP
from edgedec.decode.engine import LONGEST_PASS
from edgedec.memory.footprint import MemoryChoice, MemoryFacts, ModelMemory, longest_pass
from edgedec.memory.ledger import Lease, Ledger
from edgedec.memory.plan import MemoryPlan, planned
from edgedec.memory.release import release_freed
from edgedec.runtime.drafting import OFF, Drafting
from edgedec.telemetry.process import mapped_rss_bytes, peak_rss_bytes, rss_bytes

if TYPE_CHECKING:
    from collections.abc import Callable

    from edgedec.runtime.loaded_model import LoadedModel


@dataclass(frozen=True, slots=True)
class Budget:
    """What fits, the ledger in which all of it is leased, and the leases of what was there before."""

    known: MemoryFacts
    wanted: MemoryChoice
    plan: MemoryPlan
    ledger: Ledger
    held: tuple[Lease, ...]

    def drafting(self, asked: Drafting) -> Drafting:
        """Of the drafts asked for those that fit."""
        choice = self.plan.choice
        names = asked.names if choice.model_drafts or not asked.models else ",".join(asked.chosen) or OFF
        if not choice.drafted:
            names = OFF
        return replace(asked, names=names, tokens=max(choice.drafted, 1), tables=choice.tables)

    def as_json(self) -> dict[str, object]:
        """The plan for machines."""
        plan = self.plan
        return {
            "budget_bytes": plan.budget,
            "planned_bytes": plan.peak,
            "parts": plan.parts,
            "choice": asdict(plan.choice),
            "given_up": list(plan.given_up),
            "most_leased": self.ledger.most(),
        }

    def overrun(self) -> int:
        """Bytes that the process has had above the budget so far; 0 is what was promised."""
        return max(peak_rss_bytes() - self.plan.budget, 0)


def within(
    budget: int | Callable[[MemoryFacts, MemoryChoice], int],
    model: LoadedModel,
    drafting: Drafting,
    *,
    elastic: bool,
    drawing: int,
    drafter: LoadedModel | None = None,
    conversations: int = 1,
    when_full: str = STOP,
) -> Budget:
    """MemoryPlan for ``budget`` bytes and make the model's cache, which must be empty, and its drafter's fit.

    ``budget`` may be a function of what is known and what is wanted. ``elastic``: nobody named a context.
    ``drawing``: see ``MemoryFacts``. ``conversations``: so many at once, each with the context of the plan;
    see ``Conversations``. ``when_full``: see ``Session``. Raises MemoryBudgetError for a budget too small,
    UnsupportedError for a model whose memory is not ours to plan.
    """
    models = [one for one in (model, drafter) if one is not None]
    for one in models:
        if not one.forward.caps.reserves:
            raise UnsupportedError(
                f"{one.manifest.name} runs in {one.isa}, whose memory EdgeDec cannot bound",
                hint="set no bound, or export the model for EdgeDec's kernels",
                remedy=(Remedy("memory"), Remedy("export")),
            )
    release_freed()
    resident = rss_bytes() or peak_rss_bytes()
    known = MemoryFacts(
        _weighty(model),
        process=max(resident - mapped_rss_bytes(WEIGHTS), 0) + _template_bytes(model),
        drawing=drawing,
        drafter=_weighty(drafter) if drafter else None,
        kinds=model.forward.caps.kv_kinds,
        sequences=conversations,
        speckv=when_full == SPECKV,
    )
    drafts = drafting.names != OFF
    wanted = MemoryChoice(
        context=model.forward.capacity,
        kv=model.kv or "fp16",
        prompt_pass=min(LONGEST_PASS, model.forward.capacity),
        drafted=drafting.tokens if drafts else 0,
        tables=drafting.most_tables if drafts else 0,
        model_drafts=drafter is not None,
    )
    nbytes = budget if isinstance(budget, int) else budget(known, wanted)
    plan = planned(known, wanted, nbytes, elastic=elastic)
    ledger = Ledger(plan.parts)
    held = [ledger.lease(name, plan.parts[name]) for name in ("process", "weights") if name in plan.parts]
    _reserve(model, plan.choice, longest_pass(plan.choice, conversations), ledger)
    if drafter and known.drafter and plan.choice.model_drafts:
        its_own = ledger.under("drafter")
        held.append(its_own.lease("weights", known.drafter.weights))
        _reserve(drafter, plan.choice, longest_pass(plan.choice), its_own)
    for lease in held:
        lease.take()
    return Budget(known, wanted, plan, ledger, tuple(held))


def _template_bytes(model: LoadedModel) -> int:
    """Return the memory of the process that renders the model's chat template; 0 if it needs none."""
    return 0 if model.template is None else model.template.process_bytes


def _weighty(model: LoadedModel) -> ModelMemory:
    spec = model.forward.spec
    copied = spec.table_bytes if sys.platform.startswith("linux") else 0
    return ModelMemory(spec, model.forward.nbytes()["weights"] - copied, model.threads)


def _reserve(model: LoadedModel, choice: MemoryChoice, longest: int, ledger: Ledger) -> None:
    assert model.backend is not None
    context = min(choice.context, model.backend.spec.context_length)
    model.forward = model.backend.forward(CacheConfig(context, choice.kv, longest), ledger)
    model.kv = choice.kv
