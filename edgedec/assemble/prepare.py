"""From a ``RunConfig`` and bundles to all that a run is made of; the one way there is.

Drafters are resolved, models loaded, and memory is planned where there is a budget.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from edgedec.assemble.budget import Budget, Parts, plan_memory, wanted_choice
from edgedec.assemble.checks import (
    check_batch,
    check_batch_drafting,
    check_contrast,
    check_contrast_drafting,
)
from edgedec.assemble.config import RunConfig
from edgedec.assemble.opener import Load, ModelLoader, Opener, manifest_of
from edgedec.assemble.run_context import RunContext
from edgedec.backends.backend import ExpertSlots
from edgedec.backends.checks import checked_capacity
from edgedec.core.errors import UsageError
from edgedec.core.progress import Notice, ignore
from edgedec.core.quick_dataclass import dataclass
from edgedec.core.units import size
from edgedec.drafters.interface import DrafterSpec, OpenDrafter, SearchContext
from edgedec.drafters.registry import AUTO, Drafting, Resolved, kind_of, models_in, parsed, resolved
from edgedec.loaded_model import LoadedModel, load_model
from edgedec.memory.footprint import MemoryChoice

if TYPE_CHECKING:
    from edgedec.core.low_rank import AdapterSource


@dataclass(frozen=True, slots=True)
class Bundles:
    """Folders of exported models: the target's, and those of draft models by the names they were given."""

    target: Path
    drafts: Mapping[str, Path] = field(default_factory=dict)
    adapters: tuple[AdapterSource, ...] = ()
    """Changes of the target's matrices."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """All that a run is made of, before its KV cache is allocated."""

    config: RunConfig
    context: RunContext
    target: LoadedModel
    drafting: Drafting = field(default_factory=Drafting)
    """How it drafts: the drafters that were chosen, can be used, and fit the budget."""
    opened: Mapping[DrafterSpec, OpenDrafter] = field(default_factory=dict)
    """Drafters that were opened; those of ``drafting`` are among them."""
    small: LoadedModel | None = None
    """The model that takes turns with the target."""
    budget: Budget | None = None
    """The memory plan and its ledger, where there is a budget."""
    search: SearchContext | None = None
    unnamed: bool = False
    """Whether nobody named the drafters with weights."""

    def plan(self) -> Budget:
        """Return the memory plan: that of the budget, or one in which nothing is given up."""
        return self.budget or plan_memory(self._parts)

    @property
    def wanted(self) -> MemoryChoice:
        """The choices that no memory budget limits."""
        return wanted_choice(self._parts)

    @property
    def _parts(self) -> Parts:
        drafters = [self.opened[spec] for spec in self.drafting.drafters]
        request = self.config.memory_request
        return Parts(request, self.target, drafters, self.small, unnamed=self.unnamed)

    def draft(self, names: str) -> Drafting:
        """Return ``drafting`` with other drafters: those that ``names`` stand for and that were opened."""
        found = resolved(parsed(names), self.search).drafters
        return replace(self.drafting, drafters=tuple(spec for spec in found if spec in self.opened))

    def for_small(self, capacity: int) -> Prepared:
        """Return the run of the small model beside this one, within the same budget.

        ``capacity``: tokens that the target's cache has room for. It drafts as the target does, but for
        drafters that are made for the target.
        """
        assert self.small is not None, "no small model was named"
        context = min(capacity, self.small.spec.context_length)
        config = replace(self.config, switch=None, memory=None, context=context, history=False)
        drafters = tuple(spec for spec in self.drafting.drafters if kind_of(spec).always)
        drafting = replace(self.drafting, drafters=drafters, history=False)
        budget = self.budget.for_small() if self.budget else None
        around = replace(self.context, observe=None)
        return Prepared(config, around, self.small, drafting, self.opened, budget=budget)


def prepare(
    config: RunConfig,
    bundles: Bundles,
    context: RunContext,
    load: Load | None = None,
    *,
    also: Iterable[str] = (),
) -> Prepared:
    """Load the models of a run, open its drafters, and plan its memory where ``config`` has a budget.

    ``also``: further choices of drafters that are opened, for ``Prepared.draft``. A drafter that cannot be
    used costs a line to ``context.notice``, and so does each part that the plan gives up. Raises the errors
    of ``load`` for the target and the model that it switches to, those of ``memory_plan``, and UsageError,
    NotFoundError or UnsupportedError for a drafter that the target cannot have.
    """
    load = load or partial(load_model, home=context.home)
    search = _search(config, bundles, context)
    choice = resolved(config.drafters, search)
    more = (spec for names in also for spec in resolved(parsed(names), search).drafters)
    wanted = tuple(dict.fromkeys((*choice.drafters, *more)))
    contrast = config.context_weight is not None
    if contrast:
        check_contrast_drafting(wanted)
    elif config.sequences > 1:
        check_batch_drafting(wanted, history=config.history)
    if config.memory is not None and len(models_in(wanted)) > 1:
        raise UsageError("only one model can draft within a memory budget", hint="name one draft model")
    with_parts = any(kind_of(spec).parts for spec in wanted)
    beside = _beside(wanted, config.switch, bundles, search)
    place = replace(config.placement, notice=context.notice, beside=beside, adapters=bundles.adapters)
    layers = _taps(wanted, search)
    target = load(bundles.target, threads=config.threads, drafting=layers or with_parts, place=place)
    target = target.with_template(config.template, config.thinking)
    if contrast:
        check_contrast(target)
    else:
        check_batch(target, config.sequences)
    models = ModelLoader(bundles.drafts, search, target, load)
    small = models.named(config.switch)
    if wanted and not _can_draft(target, context.notice if config.draft != AUTO else ignore):
        choice, wanted = Resolved(), ()
    for line in choice.lines:
        context.notice(line)
    if config.kv == "auto":
        config = _with_kv(config, target, context)
    parts = Parts(config.memory_request, target, small=small)
    opener = Opener(parts, context, models, search, choice.unnamed)
    opened, budget = opener.opened(wanted)
    drafters = tuple(spec for spec in choice.drafters if spec in opened)
    drafting = Drafting(drafters, config.draft_tokens, config.history)
    if store := target.backend.experts:
        context.notice(_on_disk(store))
    if budget:
        drafting = budget.drafting(drafting, [spec for spec, one in opened.items() if one.memory])
    unnamed = opener.are_unnamed(spec for spec, one in opened.items() if one.memory)
    return Prepared(config, context, target, drafting, opened, small, budget, search, unnamed)


def _with_kv(config: RunConfig, target: LoadedModel, context: RunContext) -> RunConfig:
    """Return ``config`` with the format of the KV cache that pays here; a notice says which, and why."""
    from edgedec.assemble.kv_choice import chosen_kv
    from edgedec.backends.onnx.attention_speed import attention_seconds

    capacity = checked_capacity(target.spec, config.context)
    kv, line = chosen_kv(target, config.device, capacity, context.clock, attention_seconds)
    context.notice(line)
    return replace(config, kv=kv)


def _beside(
    wanted: Iterable[DrafterSpec], switch: str | None, bundles: Bundles, search: SearchContext | None
) -> int:
    """Return the bytes of weights that drafters, and the model named ``switch``, have beside the target's."""
    if search is None:
        return 0
    specs = {*wanted, *(parsed(switch) if switch else ())}
    paths = bundles.drafts
    return sum(kind_of(spec).weight_bytes(spec.name, search, paths.get(spec.name)) for spec in specs)


def _on_disk(store: ExpertSlots) -> str:
    """Return the line about experts that are not all in memory."""
    slots, total = store.slots, store.experts.total
    if slots == total:
        return f"note: there is room for all {total} experts; each is read when a token first needs it"
    return f"note: {slots} of {total} experts are in memory at a time; tokens read the others from the disk"


def _search(config: RunConfig, bundles: Bundles, context: RunContext) -> SearchContext | None:
    """Return the facts about unnamed drafters; None for a bundle that cannot be read."""
    manifest = manifest_of(bundles.target)
    if manifest is None:
        return None
    known = context.known(bundles.target)
    missing = partial(_too_little, bundles.target, known) if known and config.memory is None else str
    split = config.gpu_layers is not None and config.gpu_layers < manifest.spec.n_layers
    return SearchContext(
        manifest,
        context.home,
        config.sequences > 1,
        config.switch,
        known,
        missing,
        bundles.target,
        split,
    )


def _taps(wanted: Iterable[DrafterSpec], search: SearchContext | None) -> tuple[int, ...]:
    """Return the layers that drafters read beyond those that the target's graph hands out by itself."""
    found = (kind_of(spec).taps(spec.name, search) for spec in wanted if search)
    return tuple(sorted({tap for taps in found for tap in taps}))


def _too_little(target: Path, draft: Path) -> str:
    """Return why the machine has too little memory for a draft model; "" where it has enough.

    It is to have twice the model and ten times the draft model.
    """
    from edgedec.system.memory import available_bytes

    free = available_bytes()
    if free is None:
        return "what memory this machine has left is not known; name it to draft with it"
    large, small = manifest_of(target), manifest_of(draft)
    if large is None or small is None:
        return ""
    needed = 2 * large.total_bytes + 10 * small.total_bytes
    return "" if free >= needed else f"{size(free)} of memory are left, and {size(needed)} would be ample"


def _can_draft(target: LoadedModel, notice: Notice) -> bool:
    """Return whether drafters can be used; a line to ``notice`` says so where they cannot."""
    if target.backend.caps.trees and target.backend.caps.exact:
        return True
    why = "its bundle has no passes over trees of tokens"
    if target.backend.caps.trees:
        why = f"{target.isa} rounds passes of different lengths differently"
    notice(f"note: {target.name} runs without drafts; {why}")
    return False
