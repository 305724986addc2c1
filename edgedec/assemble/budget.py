"""The memory budget of a run: facts of the loaded models in, a memory plan and its ledger out.

The process is measured once its models are loaded. All that comes on top is computed, leased from one ledger,
and given up in a stated order where it does not fit.
"""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from edgedec.assemble.config import RunConfig
from edgedec.assemble.loaded_models import LoadedModels
from edgedec.backends.checks import checked_capacity
from edgedec.core.cache_config import CacheConfig, KvType
from edgedec.core.errors import Remedy, UnsupportedError, UsageError
from edgedec.core.manifest import WEIGHTS
from edgedec.core.progress import Notice
from edgedec.core.units import size
from edgedec.core.when_full import SPECKV
from edgedec.decode.engine import LONGEST_PASS
from edgedec.drafters.drafting import OFF, Drafting
from edgedec.loaded_model import LoadedModel
from edgedec.memory.footprint import HEAD_CONTEXT, MemoryChoice, MemoryFacts, ModelMemory, longest_pass
from edgedec.memory.ledger import Lease, Ledger
from edgedec.memory.plan import MemoryPlan, planned, with_drawing
from edgedec.memory.release import release_freed
from edgedec.sampling import DrawParams, drawing_bytes
from edgedec.telemetry.process import mapped_rss_bytes, peak_rss_bytes, rss_bytes

if TYPE_CHECKING:
    from edgedec.backends.onnx.head_forward import HeadModel

UNLIMITED_BYTES = 1 << 50
"""A budget in which nothing is given up."""
_KV_KINDS: tuple[KvType, ...] = ("fp16", "int8")


@dataclass(frozen=True, slots=True)
class Budget:
    """A memory plan, the ledger in which all of it is leased, and the leases of memory held already."""

    facts: MemoryFacts
    wanted: MemoryChoice
    plan: MemoryPlan
    ledger: Ledger
    held: tuple[Lease, ...]

    @property
    def choice(self) -> MemoryChoice:
        return self.plan.choice

    def drafting(self, asked: Drafting) -> Drafting:
        """Return those of the drafters asked for that fit."""
        choice = self.choice
        names = asked.names if choice.model_drafts or not asked.with_weights else asked.without_models()
        if not choice.drafted:
            names = OFF
        return replace(asked, names=names, tokens=max(choice.drafted, 1), tables=choice.tables)

    def cache(self, model: LoadedModel, sequences: int = 1) -> CacheConfig:
        """Return the KV cache that the plan gives ``model``, the target or its draft model."""
        context = min(self.choice.context, model.spec.context_length)
        return CacheConfig(context, model.kv_kind(self.choice.kv), longest_pass(self.choice, sequences))

    def for_small(self) -> Budget:
        """Return the part of the small model that takes turns with the target; see ``RunConfig.switch``.

        They share the rows of logits, because only one of them draws at a time.
        """
        return replace(self, ledger=self.ledger.under("small", shared=("rows",)), held=())

    def drawing_as(self, params: DrawParams, *, logprobs: bool = False) -> Budget:
        """Return the budget with room for replies that are drawn with ``params``.

        Everything but whole rows of logits keeps its bytes; fewer tokens may be drafted for a pass. Raises
        MemoryBudgetError when not one row fits.
        """
        drawing = drawing_bytes(params, logprobs=logprobs)
        plan = with_drawing(self.plan, self.facts, drawing)
        if plan is self.plan:
            return self
        self.ledger.shares = plan.parts
        return replace(self, plan=plan, facts=replace(self.facts, drawing=drawing))

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
        """Bytes that the process has had above the budget so far; 0 as promised."""
        return max(peak_rss_bytes() - self.plan.budget, 0)


def plan_memory(models: LoadedModels, config: RunConfig) -> Budget:
    """Fit the run into ``config.memory``; nothing is allocated yet.

    Raises MemoryBudgetError for a budget too small, UnsupportedError for a model whose memory another runtime
    keeps, UsageError for several draft models.
    """
    _check(models, config)
    facts, wanted = memory_facts(models, config), wanted_choice(models, config)
    memory = config.memory_bytes
    if memory is None:
        memory = UNLIMITED_BYTES
    nbytes = memory if isinstance(memory, int) else memory(facts, wanted)
    plan = planned(facts, wanted, nbytes, elastic=config.context is None)
    ledger = Ledger(plan.parts)
    held = [ledger.lease(name, plan.parts[name]) for name in ("process", "weights") if name in plan.parts]
    for name, part in (("drafter", facts.drafter), ("head", facts.head)):
        if part and plan.choice.model_drafts:
            held.append(ledger.under(name).lease("weights", part.weights))
    if facts.small:
        held.append(ledger.under("small").lease("weights", facts.small.weights))
    for lease in held:
        lease.take()
    return Budget(facts, wanted, plan, ledger, tuple(held))


def within_budget(models: LoadedModels, config: RunConfig, notice: Notice) -> Budget | None:
    """Plan for the budget, if there is one; ``notice`` gets a line for each part given up."""
    if config.memory is None:
        return None
    budget = plan_memory(models, config)
    for line in budget.plan.given_up:
        notice(f"memory budget {size(budget.plan.budget)}, {line}")
    return budget


def memory_facts(models: LoadedModels, config: RunConfig) -> MemoryFacts:
    """Measure the process, whose models are loaded, and collect the sizes that no plan changes."""
    release_freed()
    resident = rss_bytes() or peak_rss_bytes()
    draft = next((models.drafts[name] for name in config.drafting.models), None)
    small = models.drafts[config.switch] if config.switch else None
    drafter = _model_memory(draft) if draft else None
    if drafter and draft is small:
        drafter = replace(drafter, weights=0)  # they are the small model's
    return MemoryFacts(
        _model_memory(models.target),
        process=max(resident - mapped_rss_bytes(WEIGHTS), 0) + _template_bytes(models.target),
        drawing=drawing_bytes(
            config.sampling_for(models.target.manifest.preset), logprobs=config.switch is not None
        ),
        drafter=drafter,
        small=_model_memory(small) if small else None,
        head=_head_memory(models.head) if models.head else None,
        kinds=tuple(kv for kv in _KV_KINDS if all(kv in one.backend.caps.kv_kinds for one in _all(models))),
        sequences=config.sequences,
        speckv=config.when_full == SPECKV,
    )


def wanted_choice(models: LoadedModels, config: RunConfig) -> MemoryChoice:
    """Return the choices of the run if memory had no limit."""
    drafting, capacity = config.drafting, checked_capacity(models.target.spec, config.context)
    drafts = drafting.names != OFF
    return MemoryChoice(
        context=capacity,
        kv=config.kv,
        prompt_pass=min(LONGEST_PASS, capacity),
        drafted=drafting.tokens if drafts else 0,
        tables=drafting.most_tables if drafts else 0,
        model_drafts=bool(drafting.models or models.head),
    )


def _check(models: LoadedModels, config: RunConfig) -> None:
    if len(config.drafting.models) > 1:
        raise UsageError("only one model can draft within a memory budget", hint="name one draft model")
    for one in _all(models):
        if not one.backend.caps.reserves:
            raise UnsupportedError(
                f"{one.name} runs in {one.isa}, whose memory EdgeDec cannot bound",
                hint="run it without a budget, or export the model for EdgeDec's kernels",
                remedy=(Remedy("memory"), Remedy("export")),
            )


def _all(models: LoadedModels) -> list[LoadedModel]:
    return [models.target, *models.drafts.values()]


def _template_bytes(model: LoadedModel) -> int:
    """Return the memory of the process that renders the model's chat template; 0 if it needs none."""
    return 0 if model.template is None else model.template.process_bytes


def _head_memory(head: HeadModel) -> ModelMemory:
    return ModelMemory(head.facts.spec(HEAD_CONTEXT), head.weight_bytes, head.threads)


def _model_memory(model: LoadedModel) -> ModelMemory:
    copied = model.spec.table_bytes if sys.platform.startswith("linux") else 0
    caps = model.backend.caps
    weights = model.backend.weight_bytes - copied
    return ModelMemory(model.spec, weights, model.threads, caps.hidden, len(caps.exits))
