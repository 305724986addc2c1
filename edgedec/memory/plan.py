"""The memory plan: choices that fit a budget. It gives up the cheapest parts first, and says so.

kernels/core/memory/plan.h has the order.
"""

from __future__ import annotations

from json import loads
from typing import Any

from edgedec.core.errors import MemoryBudgetError, Remedy
from edgedec.core.quick_dataclass import dataclass
from edgedec.memory.footprint import MemoryChoice, MemoryFacts, footprint, of_core

_MOST_BYTES = 1 << 62


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """Choices that fit a budget."""

    budget: int
    """Bytes that the process may have resident."""
    choice: MemoryChoice
    parts: dict[str, int]
    """Bytes by purpose: the shares of the ledger."""
    given_up: tuple[str, ...] = ()
    """A line for each part that was lowered."""

    @property
    def peak(self) -> int:
        """The most bytes resident at once."""
        return sum(self.parts.values())


def planned(facts: MemoryFacts, wanted: MemoryChoice, budget: int, *, elastic: bool) -> MemoryPlan:
    """Return the choices nearest to ``wanted`` that take at most ``budget`` bytes.

    ``elastic``: nobody named a context, so it is as long as the rest of the budget allows, up to the wanted
    one. Raises MemoryBudgetError with the smallest budget that would fit.
    """
    found = loads(of_core("planned", facts, wanted, min(budget, _MOST_BYTES), elastic))
    if "needed" in found:
        raise _refused(found, Remedy("model"))
    return MemoryPlan(budget, MemoryChoice(*found["choice"]), found["parts"], tuple(found["given_up"]))


def with_drawing(plan: MemoryPlan, facts: MemoryFacts, drawing: int, grammar: int = 0) -> MemoryPlan:
    """Return ``plan`` with room for draws that take ``drawing`` bytes per entry of a whole row of logits.

    ``grammar``: bytes that grammars take.
    For a run whose sampling parameters change after the plan was made: everything else is allocated and keeps
    its bytes, but for experts on the disk: fewer of them are in memory then. Where still too few rows fit,
    fewer tokens are drafted for a pass. ``facts``: the facts of the plan.
    Raises MemoryBudgetError, with the budget that would do, when not one row fits.
    """
    kept = {name: nbytes for name, nbytes in plan.parts.items() if name not in ("rows", "grammar")}
    budget = min(plan.budget, _MOST_BYTES)
    others = sum(kept.values()) - kept.get("experts", 0)
    found = loads(of_core("drawing", facts, plan.choice, budget, others, drawing, grammar))
    if "needed" in found:
        raise _refused(found)
    parts = found["parts"]
    if "rows" not in parts:
        return plan  # there is room already
    del parts["others"]
    choice = MemoryChoice(*found["choice"])
    return MemoryPlan(plan.budget, choice, {**kept, **parts}, (*plan.given_up, *found["given_up"]))


def peak(facts: MemoryFacts, choice: MemoryChoice) -> int:
    """The most bytes that the process has resident at once."""
    return sum(footprint(facts, choice).values())


def least(facts: MemoryFacts, wanted: MemoryChoice, context: int = 0) -> int:
    """Return the smallest budget that fits ``context`` tokens; 0: as few as are of use."""
    return int(of_core("least", facts, wanted, context))


def milestones(facts: MemoryFacts, wanted: MemoryChoice) -> list[tuple[int, str]]:
    """Return budgets from the smallest up, each with the part that is given up below it."""
    return [(budget, line) for budget, line in loads(of_core("milestones", facts, wanted))]


def _refused(found: dict[str, Any], *others: Remedy) -> MemoryBudgetError:
    remedy = (Remedy("memory", found["needed"]), *others)
    return MemoryBudgetError(found["message"], hint=found["hint"], remedy=remedy)
