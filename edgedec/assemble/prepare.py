"""From a ``RunConfig`` and bundles to all that a run is made of; the one way there is.

Drafters are resolved, models loaded, and memory is planned where there is a budget. A drafter with weights
that the plan has no room for is not opened, or closed again: it takes no memory.
"""

from __future__ import annotations

import gc
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Protocol

from edgedec.assemble.budget import Budget, Parts, memory_facts, memory_plan, plan_memory, wanted_choice
from edgedec.assemble.checks import check_batch, check_batch_drafting
from edgedec.assemble.config import RunConfig
from edgedec.assemble.run_context import RunContext
from edgedec.core.errors import EdgeDecError, UsageError
from edgedec.core.manifest import Manifest
from edgedec.core.progress import Notice
from edgedec.core.units import size, size_up
from edgedec.drafters.interface import DrafterSpec, Estimate, OpenContext, OpenDrafter, SearchContext
from edgedec.drafters.registry import AUTO, Drafting, Resolved, kind_of, models_in, parsed, resolved
from edgedec.drafters.trim import is_trimmed
from edgedec.loaded_model import LoadedModel, load_model
from edgedec.memory.footprint import DrafterMemory
from edgedec.memory.plan import USUAL_CONTEXT, peak


@dataclass(frozen=True, slots=True)
class Bundles:
    """Folders of exported models: the target's, and those of draft models by the names they were given."""

    target: Path
    drafts: Mapping[str, Path] = field(default_factory=dict)


class Load(Protocol):
    """Opens one bundle; see ``load_model``."""

    def __call__(self, bundle: Path, /, *, threads: int | None, drafting: bool) -> LoadedModel: ...


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

    def plan(self) -> Budget:
        """Return the memory plan: that of the budget, or one in which nothing is given up."""
        drafters = [self.opened[spec] for spec in self.drafting.drafters]
        return self.budget or plan_memory(Parts(self.config, self.target, drafters, self.small))

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
    if config.conversations is not None:
        check_batch_drafting(wanted, history=config.history)
    if config.memory is not None and len(models_in(wanted)) > 1:
        raise UsageError("only one model can draft within a memory budget", hint="name one draft model")
    parts = any(kind_of(spec).parts for spec in wanted)
    target = load(bundles.target, threads=config.threads, drafting=parts).with_template(config.template)
    check_batch(target, config.sequences)
    models = _Models(bundles, search, target, load)
    opener = _Opener(config, context, target, models.named(config.switch), models, search)
    if not _can_draft(target, wanted, config, context.notice):
        choice, wanted = Resolved(), ()
    for line in choice.lines:
        context.notice(line)
    return opener.prepared(wanted, choice)


class _Models:
    """Models that are opened by the names that were given to them, each once."""

    def __init__(
        self, bundles: Bundles, search: SearchContext | None, target: LoadedModel, load: Load
    ) -> None:
        self._paths = dict(bundles.drafts)
        if search and search.known:
            self._paths.setdefault(search.known.name, search.known)
        self._home = search.home if search else None
        self._target, self._load = target, load
        self._found: dict[str, LoadedModel] = {}

    def path(self, name: str) -> Path:
        """Return the folder of a model."""
        return self._paths[name]

    def named(self, name: str | None) -> LoadedModel | None:
        """Open the model of this name, if one is given."""
        return self.load(name) if name is not None else None

    def load(self, name: str) -> LoadedModel:
        """Open a model on the target's threads; with its graph for drafting if its head is trimmed."""
        if name not in self._found:
            path = self.path(name)
            manifest = _manifest(path)
            trimmed = manifest is not None and is_trimmed(manifest, self._home)
            self._found[name] = self._load(path, threads=self._target.threads, drafting=trimmed)
        return self._found[name]

    def has(self, name: str) -> bool:
        """Return whether a model is opened."""
        return name in self._found

    def close(self, name: str) -> None:
        """Forget a model; its memory is free once nothing refers to it."""
        self._found.pop(name, None)


@dataclass(frozen=True, slots=True)
class _Opener:
    """Opens drafters, those without weights of their own first, and the others as far as memory allows."""

    config: RunConfig
    context: RunContext
    target: LoadedModel
    small: LoadedModel | None
    models: _Models
    search: SearchContext | None

    def prepared(self, wanted: Sequence[DrafterSpec], choice: Resolved) -> Prepared:
        """Open the drafters ``wanted``, and plan for those of ``choice`` where there is a budget."""
        estimates = {spec: found for spec in wanted if (found := self._estimated(spec))}
        opened = self._opened(spec for spec in wanted if spec not in estimates)
        unopened: list[DrafterMemory] = []
        for spec, estimate in estimates.items():
            if spec in choice.unnamed and not self._spare(opened, spec, estimate):
                continue
            parts = Parts(self.config, self.target, [*opened.values()], self.small, (estimate.memory,))
            if self._kept(parts):
                opened |= self._opened([spec])
            else:
                unopened.append(estimate.memory)
        run = Prepared(
            self.config,
            self.context,
            self.target,
            Drafting(
                tuple(spec for spec in choice.drafters if spec in opened),
                self.config.draft_tokens,
                self.config.history,
            ),
            opened,
            self.small,
            search=self.search,
        )
        return run if self.config.memory is None else self._within_budget(run, unopened, estimates)

    def _opened(self, specs: Iterable[DrafterSpec]) -> dict[DrafterSpec, OpenDrafter]:
        opening = OpenContext(self.target, self.context.home, self.context.notice, self.models.load)
        found = {spec: kind_of(spec).open(spec.name, opening) for spec in specs}
        return {spec: one for spec, one in found.items() if one is not None}

    def _estimated(self, spec: DrafterSpec) -> Estimate | None:
        """Return the memory of a drafter whose opening depends on the budget; None for all others."""
        if self.config.memory is None or self.search is None or spec.name not in models_in([spec]):
            return None
        if self.models.has(spec.name):
            return None
        return kind_of(spec).estimated(self.search, self.models.path(spec.name), self.target.threads)

    def _kept(self, parts: Parts) -> bool:
        """Return whether the plan for these parts keeps drafters with weights of their own."""
        return memory_plan(parts)[2].choice.model_drafts

    def _spare(
        self, opened: Mapping[DrafterSpec, OpenDrafter], spec: DrafterSpec, estimate: Estimate
    ) -> bool:
        """Return whether an unnamed drafter fits into memory that nothing else needs; a line says if not.

        Only a context beyond the usual one may be shorter for it.
        """
        alone = Parts(self.config, self.target, [*opened.values()], self.small)
        budget = memory_plan(alone)[2].budget
        beside = replace(alone, unopened=(estimate.memory,), opening=estimate.opening)
        wanted = wanted_choice(beside)
        context = wanted.context if self.config.context else min(USUAL_CONTEXT, wanted.context)
        needed = peak(memory_facts(beside), replace(wanted, context=context))
        if needed > budget:
            line = f"drafter: no {spec.name}, which would need {size_up(needed)} in all"
            self.context.notice(f"memory budget {size(budget)}, {line}")
        return needed <= budget

    def _within_budget(
        self,
        run: Prepared,
        unopened: Sequence[DrafterMemory],
        estimates: Collection[DrafterSpec],
    ) -> Prepared:
        """Return the run with its plan, and without the drafters that the plan gives up."""
        parts = Parts(self.config, self.target, [*run.opened.values()], self.small, tuple(unopened))
        closing = [spec for spec in run.opened if spec in estimates]
        if closing and not self._kept(parts):
            memory = tuple(one for spec in closing if (one := run.opened[spec].memory))
            opened = {spec: one for spec, one in run.opened.items() if spec not in closing}
            run = replace(run, opened=opened)
            parts = replace(parts, drafters=[*opened.values()], unopened=(*unopened, *memory))
            for spec in closing:
                self.models.close(spec.name)
            gc.collect()
        budget = plan_memory(parts)
        for line in budget.plan.given_up:
            self.context.notice(f"memory budget {size(budget.plan.budget)}, {line}")
        heavy = {spec for spec, one in run.opened.items() if one.memory}
        chosen = replace(
            run.drafting, drafters=tuple(spec for spec in run.drafting.drafters if spec in run.opened)
        )
        return replace(run, drafting=budget.drafting(chosen, heavy), budget=budget)


def _manifest(bundle: Path) -> Manifest | None:
    """Return the manifest of a bundle; None for one that cannot be read: loading it says why."""
    try:
        return Manifest.load(bundle)
    except EdgeDecError:
        return None


def _search(config: RunConfig, bundles: Bundles, context: RunContext) -> SearchContext | None:
    """Return the facts about unnamed drafters; None for a bundle that cannot be read."""
    manifest = _manifest(bundles.target)
    if manifest is None:
        return None
    known = context.known(bundles.target)
    missing = partial(_too_little, bundles.target, known) if known and config.memory is None else str
    return SearchContext(
        manifest, context.home, config.conversations is not None, config.switch, known, missing
    )


def _too_little(target: Path, draft: Path) -> str:
    """Return why the machine has too little memory for a draft model; "" where it has enough.

    It is to have twice the model and ten times the draft model.
    """
    from edgedec.telemetry.machine import available_bytes

    free = available_bytes()
    if free is None:
        return "what memory this machine has left is not known; name it to draft with it"
    large, small = _manifest(target), _manifest(draft)
    if large is None or small is None:
        return ""
    needed = 2 * large.total_bytes + 10 * small.total_bytes
    return "" if free >= needed else f"{size(free)} of memory are left, and {size(needed)} would be ample"


def _can_draft(target: LoadedModel, wanted: Sequence[DrafterSpec], config: RunConfig, notice: Notice) -> bool:
    """Return whether drafters can be used; a line says so where named ones cannot."""
    if not wanted:
        return False
    if target.backend.caps.trees and target.backend.caps.exact:
        return True
    if config.draft != AUTO:
        notice(f"note: {target.name} runs without drafts; its bundle has no passes over trees of tokens")
    return False
