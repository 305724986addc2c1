"""Figures of one drafter in a study of drafts: tokens, time and bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from edgedec.bench.harness.journal import SideAnswer
from edgedec.bench.harness.pairing import rounded_or_none
from edgedec.core.quick_dataclass import dataclass


def divided(part: float, whole: float) -> float | None:
    """Divide; None by 0."""
    return part / whole if whole else None


@dataclass(frozen=True, slots=True)
class DrafterScore:
    """Figures of one drafter: sums over replies, and shares of their passes and of the time of decoding."""

    queries: float
    proposed_tokens: float
    drafted_tokens: float
    """Tokens fed."""
    accepted_tokens: float
    """Tokens gained."""
    gained_per_round: float | None
    ms_per_query: float | None
    """Of proposing and learning, as the next two."""
    ms_per_round: float | None
    share_of_time: float | None
    bytes_per_round: float | None
    steps: float
    """Passes of its model."""
    ms_per_step: float | None
    """Of proposing."""
    step_of_a_pass: float | None
    """The same as a share of a pass of the target in plain decoding."""
    bytes_read: float
    table_bytes: float
    """Embedding tables beyond these, once for each pass of its model."""

    @classmethod
    def of(cls, name: str, answers: Sequence[SideAnswer], target_pass_s: float | None = None) -> DrafterScore:
        """Add up the figures of the drafter ``name``; ``target_pass_s``: a plain pass of the target."""
        found = [one.by_drafter.get(name, {}) for one in answers]

        def total(figure: str) -> float:
            return sum(one.get(figure, 0.0) for one in found)

        def per(part: float, whole: float) -> float | None:
            return rounded_or_none(divided(part, whole))

        rounds, ms = sum(len(one.rounds) for one in answers), 1e3 * (total("draft_s") + total("learn_s"))
        step_ms = per(1e3 * total("draft_s"), total("passes"))
        return cls(
            queries=total("queries"),
            proposed_tokens=total("proposed"),
            drafted_tokens=total("drafted"),
            accepted_tokens=total("accepted"),
            gained_per_round=per(total("accepted"), rounds),
            ms_per_query=per(ms, total("queries")),
            ms_per_round=per(ms, rounds),
            share_of_time=per(ms, 1e3 * sum(one.decode_s for one in answers)),
            bytes_per_round=per(total("bytes_read"), rounds),
            steps=total("passes"),
            ms_per_step=step_ms,
            step_of_a_pass=None if step_ms is None else per(step_ms, 1e3 * (target_pass_s or 0.0)),
            bytes_read=total("bytes_read"),
            table_bytes=total("table_bytes"),
        )

    def as_json(self) -> dict[str, Any]:
        return {name: one for name, one in asdict(self).items() if name not in ("bytes_read", "table_bytes")}
