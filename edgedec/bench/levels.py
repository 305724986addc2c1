"""How much memory a side of a comparison may take: bytes, or what is left of all that it would take.

"Generation memory" is what a session takes beside the weights and the loaded process: cache, scratch, rows,
tables, the model that drafts, and slack. It is what a plan chooses, and what a cut is a share of.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from edgedec.memory.footprint import MemoryChoice, MemoryFacts, footprint
from edgedec.memory.plan import least, peak, planned

_UNLIMITED = 1 << 50
_GIVEN = ("process", "weights")
"""The parts of a plan that no choice makes smaller."""


@dataclass(frozen=True, slots=True)
class Level:
    """``kind``: "full" (nothing is given up), "size" (``amount`` bytes for all of the process), "cut" (the
    share ``amount`` of the generation memory of "full" is taken away), "least" (the smallest budget that
    keeps the context).
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

    def budget(self, known: MemoryFacts, wanted: MemoryChoice) -> int:
        """Bytes for the whole process, of a session that would like ``wanted``."""
        if self.kind == "size":
            return int(self.amount)
        if self.kind == "least":
            return least(known, wanted, wanted.context)
        parts = footprint(known, wanted)
        return (
            _UNLIMITED if self.kind == "full" else sum(parts.values()) - int(self.amount * generation(parts))
        )


FULL = Level("full")
CURVE = (FULL, *(Level("cut", share) for share in (0.3, 0.5, 0.65, 0.75, 0.85)), Level("least"))
"""Points of a curve of speed against memory, from everything down to what the context alone takes."""


def generation(parts: Mapping[str, int]) -> int:
    """Bytes of generation memory, of a plan's parts."""
    return sum(nbytes for name, nbytes in parts.items() if name not in _GIVEN)


def drafts_end(known: MemoryFacts, wanted: MemoryChoice, *, elastic: bool) -> int | None:
    """Generation memory below which nothing drafts any more; None where nothing is to draft."""
    if not wanted.drafted:
        return None
    low, high = least(known, wanted) - 1, peak(known, wanted)
    while high - low > 1:
        middle = (low + high) // 2
        if planned(known, wanted, middle, elastic=elastic).choice.drafted:
            high = middle
        else:
            low = middle
    given = footprint(known, wanted)
    return high - sum(given.values()) + generation(given)
