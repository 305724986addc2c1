"""The worth of budgets to a model with experts: how many are in memory, hits, tokens per second."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

from edgedec.core.experts import Experts
from edgedec.core.quick_dataclass import dataclass

_SHARES = (0.0, 0.125, 0.25, 0.375, 0.5, 0.75, 1.0)
"""Of all experts: those in memory."""


@dataclass(frozen=True, slots=True)
class Rates:
    """Bytes per second: ``memory`` reads what a token takes, ``disk`` experts that are not there."""

    memory: float
    disk: float


@dataclass(frozen=True, slots=True)
class ExpertBudget:
    """One budget. ``hits``: expected share of a token's experts that are in memory.

    ``read``: expected bytes that a token reads from the disk. ``tokens_per_s``: at most, without drafts, if
    computing and reading do not overlap.
    """

    memory: int
    slots: int
    hits: float
    read: float
    tokens_per_s: float

    def as_json(self) -> dict[str, float]:
        return asdict(self)


def expert_budgets(experts: Experts, others: int, token_bytes: float, rates: Rates) -> Iterator[ExpertBudget]:
    """Yield budgets from the smallest up, the last one with room for all experts.

    ``others``: bytes that the process takes beside experts. ``token_bytes``: bytes of weights that a token
    takes.
    """
    taken = experts.layers * experts.chosen * experts.nbytes / experts.total
    slots = sorted({max(experts.least, round(share * experts.total)) for share in _SHARES})
    for count in slots:
        hits = experts.hits(count)
        read = taken * (1.0 - hits)
        seconds = token_bytes / rates.memory + read / rates.disk
        yield ExpertBudget(others + count * experts.slot_bytes, count, hits, read, 1.0 / seconds)
