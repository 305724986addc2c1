"""One memory budget for all models of a process, and one for those on its GPU.

Each model is planned as if it were alone, so that its context does not depend on the others. It is opened
beside them if that plan fits there.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from edgedec.assemble.config import SharedMemory
from edgedec.bundle.manifest import WEIGHTS
from edgedec.core.errors import MemoryBudgetError
from edgedec.memory.plan import planned
from edgedec.system.allocator import release_freed
from edgedec.system.memory import mapped_rss_bytes, peak_rss_bytes, rss_bytes

if TYPE_CHECKING:
    from edgedec.assemble.config import MemoryRule
    from edgedec.memory.footprint import MemoryChoice, MemoryFacts
    from edgedec.memory.plan import MemoryPlan


class NoRoomBeside(Exception):  # noqa: N818 - it is no error
    """A model fits the budget alone, and does not fit beside those that are open."""


def process_bytes() -> int:
    """Return the bytes that the process holds, mapped weights apart."""
    gc.collect()
    release_freed()
    return max((rss_bytes() or peak_rss_bytes()) - mapped_rss_bytes(WEIGHTS), 0)


class ModelRoom:
    """Counts the memory that open models may take of ``budget`` bytes. Used by one thread.

    The process is measured before a model is opened. All that it has then beyond its first measurement is
    other models', whose plans count it already.
    """

    def __init__(self, budget: int, measure: Callable[[], int] = process_bytes) -> None:
        self.budget = budget
        self._measure = measure
        self._base = 0
        """Bytes of the process without a model."""
        self._above = 0
        """Bytes of other models when the newest one began to open."""
        self._planned: dict[str, int] = {}
        self._own: dict[str, int] = {}
        """The same without weights, which are mapped."""
        self._aside: dict[str, int] = {}

    @property
    def planned(self) -> int:
        """Bytes that the process may come to hold with the models that are open."""
        return self._base + sum(self._planned.values())

    @property
    def left(self) -> int:
        """Bytes that the process may hold with a model that is not opened by a rule; of what others have
        taken already some is counted twice.
        """
        return self.budget - sum(self._planned.values())

    def set_aside(self, name: str, nbytes: int) -> None:
        """Take what a model that was opened without a rule needs from the budget; 0: give it back."""
        self.budget -= nbytes - self._aside.pop(name, 0)
        if nbytes:
            self._aside[name] = nbytes

    def fits(self, weights: int) -> bool:
        """Whether a model of so many bytes of weights may fit beside the open ones, or fits nowhere."""
        return self.planned + weights <= self.budget or self._base + weights > self.budget

    def rule(self, *, elastic: bool) -> MemoryRule:
        """Measure the process, and return the memory rule of the model that is opened next.

        ``elastic``: nobody named a context. The rule raises MemoryBudgetError for a model that does not fit
        alone, and NoRoomBeside.
        """
        before = self._measure()
        if not self._planned:
            self._base = before
        self._above = max(before - self._base, 0)

        grows = max(sum(self._own.values()) - self._above, 0)

        def rule(facts: MemoryFacts, wanted: MemoryChoice) -> int:
            own = replace(facts, process=max(facts.process - self._above, 0))
            try:
                plan = planned(own, wanted, self.budget, elastic=elastic)
            except MemoryBudgetError:
                # Replies of other models may have taken memory since, which is among the facts of this one.
                planned(
                    replace(own, process=max(own.process - grows, 0)), wanted, self.budget, elastic=elastic
                )
                raise NoRoomBeside from None
            if plan.peak + self.planned - self._base > self.budget:
                raise NoRoomBeside
            return self.budget + self._above

        return SharedMemory(self.budget, rule)

    def opened(self, name: str, plan: MemoryPlan) -> None:
        """Count the model that was opened by the newest rule."""
        self._planned[name] = max(plan.peak - self._above - self._base, 0)
        self._own[name] = max(self._planned[name] - plan.parts.get("weights", 0), 0)

    def closed(self, name: str) -> None:
        """Count a model no more; its memory was released."""
        del self._planned[name], self._own[name]


class GpuRoom:
    """Counts the memory of a GPU that models take of ``budget`` bytes; None: no bound. Used by one thread."""

    def __init__(self, budget: int | None) -> None:
        self.budget = budget
        self._taken: dict[str, int] = {}

    @property
    def left(self) -> int | None:
        """Bytes that the next model may take."""
        return None if self.budget is None else self.budget - sum(self._taken.values())

    def refuse(self, error: MemoryBudgetError) -> None:
        """Raise NoRoomBeside where a model was refused ``left`` bytes, and ``budget`` would do."""
        needed = next((one.value for one in error.remedies if one.name == "device_memory"), None)
        if self._taken and self.budget is not None and isinstance(needed, int) and needed <= self.budget:
            raise NoRoomBeside from None

    def opened(self, name: str, nbytes: int) -> None:
        """Count a model that takes so much."""
        self._taken[name] = nbytes

    def closed(self, name: str) -> None:
        """Count a model no more."""
        self._taken.pop(name, None)
