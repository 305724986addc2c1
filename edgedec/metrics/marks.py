"""Counts of an engine at moments of a reply; its figures are differences of them."""

from __future__ import annotations

from edgedec.core.quick_dataclass import dataclass
from edgedec.metrics.traffic import Work
from edgedec.telemetry.energy.meter import Reading


@dataclass(frozen=True, slots=True)
class CounterSnapshot:
    """Counts of an engine at a moment."""

    work: Work
    """Passes of the target."""
    draft_bytes: int = 0
    """Bytes that drafters have read."""
    draft_table_bytes: int = 0
    """Bytes of embedding tables from which their passes looked up rows, once a pass."""
    reading: Reading | None = None
    """The energy meter; None without one."""
    small: CounterSnapshot | None = None
    """Counts of the small model that takes turns with the target; None where there is none."""


@dataclass(frozen=True, slots=True)
class Marks:
    """The marks of one reply."""

    start: CounterSnapshot
    first: CounterSnapshot
    """After the pass that gave its first token."""
    end: CounterSnapshot
