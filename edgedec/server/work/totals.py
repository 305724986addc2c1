"""Counts of replies and passes."""

from __future__ import annotations

from dataclasses import fields

from edgedec.core.quick_dataclass import dataclass
from edgedec.server.work.request import Usage


@dataclass
class WorkTotals:
    """Counts since a start; those of several models add up."""

    prompt_tokens: int = 0
    cached_tokens: int = 0
    disk_tokens: int = 0
    completion_tokens: int = 0
    drafted_tokens: int = 0
    passes: int = 0
    slot_passes: int = 0

    def add(self, usage: Usage) -> None:
        """Count a sample."""
        self.prompt_tokens += usage.prompt_tokens
        self.cached_tokens += usage.cached_tokens
        self.disk_tokens += usage.disk_tokens
        self.completion_tokens += usage.completion_tokens
        self.drafted_tokens += usage.drafted_tokens
        self.slot_passes += usage.passes

    def plus(self, other: WorkTotals) -> WorkTotals:
        """Return the sums of these counts and others."""
        return WorkTotals(*(getattr(self, one.name) + getattr(other, one.name) for one in fields(self)))
