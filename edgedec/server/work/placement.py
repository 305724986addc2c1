"""The slot for a request, by the prefixes that the slots have cached."""

from __future__ import annotations

from collections.abc import Sequence

from edgedec.core.quick_dataclass import dataclass

LEAST_SHARED = 16
"""Tokens of a prefix; a shorter one is as quickly computed as looked for."""
_MOSTLY = 0.5
"""Part of a slot's tokens that a request goes on from, beyond which the slot is that of its conversation."""
_LITTLE = 64
"""Tokens that a slot may lose though another one is empty."""


@dataclass(frozen=True, slots=True)
class SlotView:
    """The facts about a slot that decide."""

    number: int
    free: bool
    shared: int
    """Tokens that the prompt has in common with it, and that can be reused there."""
    cached: int
    """Tokens in it."""
    used: int
    """Its last use, on a scale that grows."""


@dataclass(frozen=True, slots=True)
class Placement:
    """A slot, and perhaps another one from which ``tokens`` are copied first."""

    slot: int
    source: int | None = None
    tokens: int = 0


def placed(slots: Sequence[SlotView], *, copies: bool) -> Placement:
    """Choose a free slot, of which there must be one; ``copies``: whether prefixes can be copied.

    A conversation goes on in its own slot. Another request takes an empty slot, or the one that was used
    longest ago, with a copy of the best prefix. So a conversation whose first tokens others share keeps its
    cache.
    """
    free = [slot for slot in slots if slot.free]
    own = max(free, key=lambda slot: (slot.shared, -slot.used))
    best = max(slots, key=lambda slot: (slot.shared, slot.free))
    oldest = min(free, key=lambda slot: (slot.cached > 0, slot.used))
    lost = own.cached - own.shared
    goes_on = lost <= _LITTLE or (oldest.cached and own.shared >= _MOSTLY * own.cached)
    if own.shared >= LEAST_SHARED and (not copies or (goes_on and own.shared + LEAST_SHARED > best.shared)):
        return Placement(own.number)
    if copies and best.number != oldest.number and best.shared >= oldest.shared + LEAST_SHARED:
        return Placement(oldest.number, best.number, best.shared)
    return Placement(oldest.number)
