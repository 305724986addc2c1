"""Memory budgets of a side, in bytes or relative to the memory that it takes without a budget.

Generation memory is all memory but the weights and the loaded process: KV cache, scratch, head rows,
drafters' tables, the draft model, slack. A memory plan chooses it; a cut takes a share of it away.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from edgedec.core.quick_dataclass import dataclass
from edgedec.memory.footprint import MemoryChoice, MemoryFacts, footprint
from edgedec.memory.plan import least, peak, planned

_UNLIMITED = 1 << 50
_GIVEN = ("process", "weights")
"""Parts of a memory plan that no choice makes smaller."""


@dataclass(frozen=True, slots=True)
class Level:
    """A memory budget.

    - "full": no limit.
    - "size": ``amount`` bytes for the whole process.
    - "cut": the generation memory of "full", less the share ``amount`` of it.
    - "least": the smallest budget that keeps the context.
    """

    kind: Literal["full", "size", "cut", "least"]
    amount: float = 0.0
    shown: str = ""
    """A size as the user wrote it."""

    @property
    def name(self) -> str:
        if self.kind == "cut":
            return f"-{100 * self.amount:g}%"
        return self.shown if self.kind == "size" else self.kind

    def budget(self, facts: MemoryFacts, wanted: MemoryChoice) -> int:
        """Return the bytes for the process of a session that would choose ``wanted`` without a limit."""
        if self.kind == "size":
            return int(self.amount)
        if self.kind == "least":
            return least(facts, wanted, wanted.context)
        parts = footprint(facts, wanted)
        return (
            _UNLIMITED if self.kind == "full" else sum(parts.values()) - int(self.amount * generation(parts))
        )


FULL = Level("full")
CURVE = (FULL, *(Level("cut", share) for share in (0.3, 0.5, 0.65, 0.75, 0.85)), Level("least"))
"""Points of a curve of speed against memory, from no limit down to the least that keeps the context."""


def generation(parts: Mapping[str, int]) -> int:
    """Return the bytes of generation memory in the parts of a memory plan."""
    return sum(nbytes for name, nbytes in parts.items() if name not in _GIVEN)


def drafts_end(facts: MemoryFacts, wanted: MemoryChoice, *, elastic: bool) -> int | None:
    """Return the generation memory in bytes below which drafts stop; None if there are none."""
    if not wanted.drafted:
        return None
    low, high = least(facts, wanted) - 1, peak(facts, wanted)
    while high - low > 1:
        middle = (low + high) // 2
        if planned(facts, wanted, middle, elastic=elastic).choice.drafted:
            high = middle
        else:
            low = middle
    given = footprint(facts, wanted)
    return high - sum(given.values()) + generation(given)
