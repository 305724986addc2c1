"""The experts of a model whose layers have many MLPs, of which each token takes a few."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import MISSING, fields

from edgedec.core.quick_dataclass import dataclass

_MOST = 1 << 50
_LEAST_BYTES = 4096
"""Alignment of an expert in its file, in bytes."""
AGAIN = 0.35
"""Share of a token's experts that the next one takes again: 0.18 to 0.43 in three published models."""


@dataclass(frozen=True, slots=True)
class Experts:
    """Their number and sizes. Experts that compute every token are not counted."""

    layers: int
    """Layers that have experts."""
    count: int
    """Experts of a layer."""
    chosen: int
    """Experts that a token takes of them."""
    width: int
    """Rows of the gate of an expert."""
    slot_bytes: int
    """Bytes of the largest expert as it lies in the file."""
    nbytes: int
    """Bytes of all experts of all layers."""
    shared: int = 0
    """Width of an expert or an MLP beside them that computes every token; 0: there is none."""

    @property
    def total(self) -> int:
        """Return the number of experts in all layers."""
        return self.layers * self.count

    @property
    def least(self) -> int:
        """Return how many are in memory at the least where passes read them from the disk."""
        return min(4 * self.chosen, self.total)

    def expected(self, tokens: float) -> float:
        """Return the share of the experts that a pass over so many tokens takes, if each is as likely."""
        return 1.0 - math.pow(1.0 - self.chosen / self.count, tokens)

    def hits(self, slots: float, again: float = AGAIN) -> float:
        """Return the share of a token's experts that are among ``slots`` in memory.

        Expected where a token takes the share ``again`` of the last one's experts once more, and the others
        are as likely as each other.
        """
        taken, kept = self.chosen / self.count, min(slots / self.total, 1.0)
        again = max(again, taken)
        if kept < taken:
            return again * kept / taken
        return again + (1.0 - again) * (kept - taken) / (1.0 - taken) if taken < 1.0 else 1.0


@dataclass(frozen=True, slots=True)
class StoreCounts:
    """Counts of what passes asked of experts on a disk. ``hits``: experts of passes that were in a slot."""

    held: int
    hits: int
    bytes_read: int
    waited_s: float

    def since(self, before: StoreCounts) -> StoreCounts:
        """Return what was asked since there were the counts ``before``."""
        return StoreCounts(
            self.held - before.held,
            self.hits - before.hits,
            self.bytes_read - before.bytes_read,
            self.waited_s - before.waited_s,
        )


def experts_from_json(value: object) -> Experts:
    """Read the form in a manifest. Raises TypeError, which says what is wrong."""
    if not isinstance(value, Mapping):
        raise TypeError("is no object")
    sizes = {}
    for field in fields(Experts):
        least, default = (1, None) if field.default is MISSING else (0, field.default)
        size = value.get(field.name, default)
        if isinstance(size, bool) or not isinstance(size, int) or not least <= size <= _MOST:
            raise TypeError(f"has no proper {field.name}")
        sizes[field.name] = size
    found = Experts(**sizes)
    least, most = found.total * _LEAST_BYTES, found.total * found.slot_bytes
    if found.chosen > found.count or found.slot_bytes > found.nbytes or not least <= found.nbytes <= most:
        raise TypeError("has sizes that do not fit each other")
    return found
