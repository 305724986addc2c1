"""Opens what a run drafts with, within its memory budget.

A drafter with weights that the plan has no room for is not opened, or closed again: it takes no memory.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from edgedec.assemble.budget import Budget, Parts, memory_facts, memory_plan, plan_memory, wanted_choice
from edgedec.assemble.run_context import RunContext
from edgedec.bundle.manifest import Manifest
from edgedec.core.errors import EdgeDecError
from edgedec.core.quick_dataclass import dataclass
from edgedec.core.units import size, size_up
from edgedec.drafters.interface import DrafterSpec, Estimate, OpenContext, OpenDrafter, SearchContext
from edgedec.drafters.registry import kind_of
from edgedec.drafters.trim import is_trimmed
from edgedec.loaded_model import LoadedModel
from edgedec.memory.footprint import DrafterMemory
from edgedec.memory.plan import peak

Load = Callable[..., LoadedModel]
"""Opens one bundle; it has the parameters of ``load_model``."""


class ModelLoader:
    """Models that are opened by the names that were given to them, each once."""

    def __init__(
        self, paths: Mapping[str, Path], search: SearchContext | None, target: LoadedModel, load: Load
    ) -> None:
        self._paths = dict(paths)
        if search and search.known:
            self._paths.setdefault(search.known.name, search.known)
        self._home = search.home if search else None
        self._target, self._load = target, load
        self._found: dict[str, LoadedModel] = {}

    def unloaded(self, name: str) -> Path | None:
        """Return the folder of a model that is not opened; None for any other name."""
        return None if name in self._found else self._paths.get(name)

    def named(self, name: str | None) -> LoadedModel | None:
        """Open the model of this name, if one is given."""
        return self.load(name) if name is not None else None

    def load(self, name: str) -> LoadedModel:
        """Open a model on the target's threads; with its graph for drafting if its head is trimmed."""
        if name not in self._found:
            path = self._paths[name]
            manifest = manifest_of(path)
            trimmed = manifest is not None and is_trimmed(manifest, self._home, path)
            self._found[name] = self._load(path, threads=self._target.threads, drafting=trimmed)
        return self._found[name]

    def close(self, name: str) -> None:
        """Forget a model; its memory is free once nothing refers to it."""
        self._found.pop(name, None)


@dataclass(frozen=True, slots=True)
class Opener:
    """Opens drafters: those that take next to nothing to open first, the others as far as memory allows."""

    parts: Parts
    """The run, without drafters."""
    context: RunContext
    models: ModelLoader
    search: SearchContext | None
    unnamed: Collection[DrafterSpec] = ()
    """Drafters that nobody named. They take only memory that nothing else needs."""

    def opened(self, wanted: Sequence[DrafterSpec]) -> tuple[dict[DrafterSpec, OpenDrafter], Budget | None]:
        """Open the drafters ``wanted``, and plan for all of them where there is a budget."""
        estimates = {spec: found for spec in wanted if (found := self._estimate(spec))}
        opened = self._open(spec for spec in wanted if spec not in estimates)
        unopened = dict[DrafterSpec, DrafterMemory]()
        for spec, estimate in estimates.items():
            if spec in self.unnamed and not self._spare(self._with(opened), spec, estimate):
                continue
            if self._keeps(self._with(opened, {spec: estimate.memory})):
                opened |= self._open([spec])
            else:
                unopened[spec] = estimate.memory
        if self.parts.request.limit is None:
            return opened, None
        closing = [spec for spec in estimates if spec in opened]
        if closing and not self._keeps(self._with(opened, unopened)):
            unopened |= self._close(opened, closing)
        budget = plan_memory(self._with(opened, unopened))
        for line in budget.plan.given_up:
            self.context.notice(f"memory budget {size(budget.plan.budget)}, {line}")
        return opened, budget

    def are_unnamed(self, heavy: Iterable[DrafterSpec]) -> bool:
        """Return whether nobody named any of these drafters."""
        return all(spec in self.unnamed for spec in heavy)

    def _with(
        self,
        opened: Mapping[DrafterSpec, OpenDrafter],
        unopened: Mapping[DrafterSpec, DrafterMemory] | None = None,
    ) -> Parts:
        more = unopened or {}
        unnamed = self.are_unnamed([*(spec for spec, one in opened.items() if one.memory), *more])
        drafters, planned = [*opened.values()], tuple(more.values())
        return replace(self.parts, drafters=drafters, unopened=planned, unnamed=unnamed)

    def _open(self, specs: Iterable[DrafterSpec]) -> dict[DrafterSpec, OpenDrafter]:
        target, around = self.parts.target, self.context
        request = self.parts.request
        count = 1 if request.contrast else request.sequences
        context = OpenContext(target, around.home, around.notice, self.models.load, count)
        found = {spec: kind_of(spec).open(spec.name, context) for spec in specs}
        return {spec: one for spec, one in found.items() if one is not None}

    def _close(
        self, opened: dict[DrafterSpec, OpenDrafter], specs: Iterable[DrafterSpec]
    ) -> dict[DrafterSpec, DrafterMemory]:
        """Close drafters, and return the memory that they would take."""
        found = {spec: opened.pop(spec).memory for spec in specs}
        for spec in specs:
            self.models.close(spec.name)
        gc.collect()
        return {spec: one for spec, one in found.items() if one}

    def _estimate(self, spec: DrafterSpec) -> Estimate | None:
        """Return the memory of a drafter whose opening depends on a budget; None for all others."""
        bundle = self.models.unloaded(spec.name)
        if self.parts.request.limit is None or self.search is None or bundle is None:
            return None
        return kind_of(spec).estimated(self.search, bundle, self.parts.target.threads)

    def _keeps(self, parts: Parts) -> bool:
        """Return whether the plan for these parts keeps drafters with weights of their own."""
        return memory_plan(parts)[2].choice.model_drafts

    def _spare(self, parts: Parts, spec: DrafterSpec, estimate: Estimate) -> bool:
        """Return whether a drafter fits into memory that these parts do not need; a line says if not."""
        budget = memory_plan(parts)[2].budget
        beside = replace(parts, unopened=(estimate.memory,), opening=estimate.opening)
        needed = peak(memory_facts(beside), wanted_choice(beside))
        if needed > budget:
            line = f"drafter: no {spec.name}, which would need {size_up(needed)} in all"
            self.context.notice(f"memory budget {size(budget)}, {line}")
        return needed <= budget


def manifest_of(bundle: Path) -> Manifest | None:
    """Return the manifest of a bundle; None for one that cannot be read: loading it says why."""
    try:
        return Manifest.load(bundle)
    except EdgeDecError:
        return None
