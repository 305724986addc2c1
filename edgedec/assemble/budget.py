"""The memory budget of a run: facts of the loaded models in, a memory plan and its ledger out.

The process is measured once its models are loaded. All that comes on top is computed, leased from one ledger,
and given up in a stated order where it does not fit.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from edgedec.assemble.checks import check_budget
from edgedec.assemble.config import MemoryRequest
from edgedec.backends.checks import checked_capacity
from edgedec.backends.state_snapshots import MOST_SNAPSHOTS, SNAPSHOTS
from edgedec.backends.state_store import snapshot_bytes
from edgedec.bundle.manifest import WEIGHTS
from edgedec.core.cache_config import SPECKV, CacheConfig, KvType
from edgedec.core.ledger import Lease, Ledger
from edgedec.core.model_spec import ModelSpec
from edgedec.core.quick_dataclass import dataclass
from edgedec.core_lib.needs import drawing_bytes
from edgedec.decode.engine import LONGEST_PASS
from edgedec.drafters.interface import DrafterSpec, OpenDrafter
from edgedec.drafters.model import model_memory
from edgedec.drafters.registry import Drafting
from edgedec.loaded_model import LoadedModel
from edgedec.memory import ring_kept, ring_keys, ring_slots, slot_bytes
from edgedec.memory.footprint import DrafterMemory, MemoryChoice, MemoryFacts, longest_pass
from edgedec.memory.plan import MemoryPlan, least, milestones, planned, with_drawing
from edgedec.sampling import DrawParams
from edgedec.sampling.named import chosen
from edgedec.system.allocator import release_freed
from edgedec.system.memory import mapped_rss_bytes, peak_rss_bytes, rss_bytes
from edgedec.text.bpe_table import FILE_NAME as TOKENIZER_TABLE

UNLIMITED_BYTES = 1 << 50
"""A budget in which nothing is given up."""
_WHOLE_ROWS = 8
"""Bytes of a draw per entry of a row that is combined, at least: whole rows are always asked for."""
_SNAPSHOTS_PART = 8
"""Part of a budget that snapshots may take: one in so many."""
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

    def drafting(self, asked: Drafting, heavy: Collection[DrafterSpec]) -> Drafting:
        """Return those of the drafters asked for that fit; ``heavy``: those with weights of their own."""
        choice = self.choice
        drafters = tuple(one for one in asked.drafters if choice.model_drafts or one not in heavy)
        if not choice.drafted:
            drafters = ()
        return replace(asked, drafters=drafters, tokens=max(choice.drafted, 1), tables=choice.tables)

    def for_small(self) -> Budget:
        """Return the part of the small model that takes turns with the target; see ``RunConfig.switch``.

        They share the rows of logits, because only one of them draws at a time.
        """
        return replace(self, ledger=self.ledger.under("small", shared=("rows",)), held=())

    def drawing_as(
        self, params: DrawParams, *, logprobs: bool = False, grammar: bool = False, masked: bool = False
    ) -> Budget:
        """Return the budget with room for replies that are drawn with ``params``, perhaps under a grammar.

        Everything but whole rows of logits keeps its bytes; fewer experts may be in memory, and fewer tokens
        drafted for a pass. Raises MemoryBudgetError when not one row fits.
        """
        drawing = drawing_bytes(params, logprobs=logprobs, masked=grammar or masked)
        held = _grammar_bytes(self.facts.target.spec) if grammar else 0
        plain = self.plan
        if SNAPSHOTS not in self.ledger.by_name():  # none is kept yet: the rows go first
            plain = replace(plain, parts={name: n for name, n in plain.parts.items() if name != SNAPSHOTS})
        plan = with_drawing(plain, self.facts, drawing, held)
        if plan is plain:
            return self
        plan = with_snapshots(plan, self.facts)
        for lease in self.held:
            if lease.name == "experts":
                lease.shrink(plan.parts["experts"])
        self.ledger.reshare(plan.parts)
        facts = replace(
            self.facts, drawing=max(drawing, self.facts.drawing), grammar=max(held, self.facts.grammar)
        )
        return replace(self, plan=plan, facts=facts)

    def milestones(self) -> list[tuple[int, str]]:
        """Return budgets from the smallest up, each with a line about what is given up below it."""
        least_of_all = least(self.facts, self.wanted), "nothing fits"
        return [least_of_all, *milestones(self.facts, self.wanted)]

    @property
    def longest_pass(self) -> int:
        """Tokens of the longest pass."""
        return longest_pass(self.choice, self.facts.sequences)


@dataclass(frozen=True, slots=True)
class Parts:
    """All that takes memory in a run.

    ``unopened``: drafters that are planned for before they are opened, which takes ``opening`` bytes.
    """

    request: MemoryRequest
    target: LoadedModel
    drafters: Sequence[OpenDrafter] = ()
    small: LoadedModel | None = None
    unopened: tuple[DrafterMemory, ...] = ()
    opening: int = 0
    unnamed: bool = False
    """Whether nobody named the drafters with weights."""

    @property
    def models(self) -> list[LoadedModel]:
        """All models that are loaded."""
        drafts = (model for one in self.drafters for model in one.models if model is not self.small)
        return [self.target, *([self.small] if self.small else ()), *drafts]

    @property
    def memories(self) -> tuple[DrafterMemory, ...]:
        """The memory of drafters with weights of their own."""
        opened = (self._memory(one) for one in self.drafters)
        return (*(one for one in opened if one), *self.unopened)

    def _memory(self, drafter: OpenDrafter) -> DrafterMemory | None:
        if drafter.memory and self.small and self.small in drafter.models:
            return replace(drafter.memory, weights=0)  # they are the small model's
        return drafter.memory


def cache_for(model: LoadedModel, choice: MemoryChoice) -> CacheConfig:
    """Return the KV cache that ``choice`` gives a sequence of ``model``: the target, or a draft model."""
    context = min(choice.context, model.spec.context_length)
    return CacheConfig(context, model.kv_kind(choice.kv), longest_pass(choice))


def memory_plan(parts: Parts) -> tuple[MemoryFacts, MemoryChoice, MemoryPlan]:
    """Fit a run into its budget, or into one in which nothing is given up; nothing is allocated yet.

    Returns the facts, the choices that nothing would limit, and the plan. Raises MemoryBudgetError for a
    budget too small, UnsupportedError for a model whose memory another runtime decides.
    """
    check_budget(parts.models)
    facts, wanted = memory_facts(parts), wanted_choice(parts)
    memory = UNLIMITED_BYTES if parts.request.limit is None else parts.request.limit
    nbytes = memory if isinstance(memory, int) else memory(facts, wanted)
    return facts, wanted, planned(facts, wanted, nbytes, elastic=parts.request.context is None)


def plan_memory(parts: Parts) -> Budget:
    """Fit a run into its budget, and lease what is held already. Raises the errors of ``memory_plan``."""
    facts, wanted, plan = memory_plan(parts)
    plan = with_snapshots(plan, facts)
    ledger = Ledger(plan.parts)
    there = [name for name in ("process", "weights", "experts") if name in plan.parts]
    held = [ledger.lease(name, plan.parts[name]) for name in there]
    if plan.choice.model_drafts:
        held += [ledger.under(one.part).lease("weights", one.weights) for one in facts.drafters]
    if facts.small:
        held.append(ledger.under("small").lease("weights", facts.small.weights))
    for lease in held:
        lease.take()
    if (store := parts.target.backend.experts) is not None:
        store.limit(plan.choice.experts)
    return Budget(facts, wanted, plan, ledger, tuple(held))


def with_snapshots(plan: MemoryPlan, facts: MemoryFacts) -> MemoryPlan:
    """Return ``plan`` with room for snapshots of states or rings: what nothing else needs, in small part.

    A changed last message is then read alone; without room for them the conversation is read again.
    """
    each = snapshot_bytes(facts.target.spec.states) or _ring_snapshot(plan.choice, facts)
    spare = min(plan.budget - plan.peak, plan.budget // _SNAPSHOTS_PART)
    if not 0 < each <= spare or SNAPSHOTS in plan.parts:
        return plan
    count = min(MOST_SNAPSHOTS * facts.sequences, spare // each)
    return replace(plan, parts={**plan.parts, SNAPSHOTS: count * each})


def _ring_snapshot(choice: MemoryChoice, facts: MemoryFacts) -> int:
    """Bytes of a copy of a sequence's rings; 0 where they never go round."""
    spec = facts.target.spec
    context, kv = min(choice.context, spec.context_length), choice.kv
    slots = ring_slots(spec, context, longest_pass(choice, facts.sequences), kv)
    rings = ring_keys(spec)
    return slot_bytes(rings, kv) * ring_kept(spec) if rings and slots < context else 0


def memory_facts(parts: Parts) -> MemoryFacts:
    """Measure the process, whose models are loaded, and collect the sizes that no plan changes."""
    release_freed()
    resident = rss_bytes() or peak_rss_bytes()
    request, target = parts.request, parts.target
    template = 0 if target.template is None else target.template.process_bytes
    return MemoryFacts(
        model_memory(target),
        process=max(resident - mapped_rss_bytes(WEIGHTS) - mapped_rss_bytes(TOKENIZER_TABLE), 0)
        + template
        + parts.opening
        + target.tokenizer.mapped_bytes
        + (parts.small.tokenizer.mapped_bytes if parts.small else 0),
        drawing=max(
            _WHOLE_ROWS if request.contrast else 0,
            drawing_bytes(
                chosen(request.sampling, DrawParams.of(target.manifest.preset)),
                logprobs=parts.small is not None,
                masked=request.structured,
            ),
        ),
        grammar=_grammar_bytes(target.spec) if request.structured else 0,
        drafters=parts.memories,
        unnamed=parts.unnamed,
        small=model_memory(parts.small) if parts.small else None,
        kinds=tuple(kv for kv in _KV_KINDS if all(kv in one.backend.caps.kv_kinds for one in parts.models)),
        sequences=request.sequences,
        speckv=request.when_full == SPECKV,
        contrast=request.contrast,
    )


def wanted_choice(parts: Parts) -> MemoryChoice:
    """Return the choices of the run if memory had no limit."""
    request, capacity = parts.request, checked_capacity(parts.target.spec, parts.request.context)
    return MemoryChoice(
        context=capacity,
        kv=request.kv,
        prompt_pass=min(LONGEST_PASS, capacity),
        drafted=request.draft_tokens if parts.drafters or parts.unopened else 0,
        tables=sum(one.table_bytes for one in parts.drafters),
        model_drafts=bool(parts.memories),
        experts=parts.target.backend.experts.least if parts.target.backend.experts else 0,
    )


def _grammar_bytes(spec: ModelSpec) -> int:
    from edgedec.grammar.vocabulary import vocabulary_bytes

    return vocabulary_bytes(spec)
