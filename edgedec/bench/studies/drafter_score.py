"""Figures of one drafter in a study of drafts: tokens, time and bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from edgedec.bench.harness.journal import SideAnswer
from edgedec.bench.harness.pairing import rounded_or_none
from edgedec.core.quick_dataclass import dataclass


def divided(part: float, whole: float) -> float | None:
    """Divide; None by 0."""
    return part / whole if whole else None


@dataclass(frozen=True, slots=True)
class DrafterScore:
    """Figures of one drafter: sums over replies, and shares of ``rounds`` passes that took ``decode_s``."""

    rounds: int
    decode_s: float
    queries: float
    proposed: float
    drafted: float
    """Tokens fed."""
    accepted: float
    """Tokens gained."""
    seconds: float
    """Proposing and learning."""
    bytes_read: float
    table_bytes: float
    """Embedding tables beyond these, once for each pass of its model."""
    passes: float
    """Passes of its model."""
    draft_s: float
    """Proposing."""
    target_pass_s: float | None = None
    """A pass of the target in plain decoding."""

    @classmethod
    def of(cls, name: str, answers: Sequence[SideAnswer], target_pass_s: float | None = None) -> DrafterScore:
        """Add up the figures of the drafter ``name``."""
        found = [one.by_drafter.get(name, {}) for one in answers]

        def total(figure: str) -> float:
            return sum(one.get(figure, 0.0) for one in found)

        return cls(
            rounds=sum(len(one.rounds) for one in answers),
            decode_s=sum(one.decode_s for one in answers),
            queries=total("queries"),
            proposed=total("proposed"),
            drafted=total("drafted"),
            accepted=total("accepted"),
            seconds=total("draft_s") + total("learn_s"),
            bytes_read=total("bytes_read"),
            table_bytes=total("table_bytes"),
            passes=total("passes"),
            draft_s=total("draft_s"),
            target_pass_s=target_pass_s,
        )

    @property
    def ms_per_query(self) -> float | None:
        return divided(1e3 * self.seconds, self.queries)

    @property
    def ms_per_round(self) -> float | None:
        return divided(1e3 * self.seconds, self.rounds)

    @property
    def share(self) -> float | None:
        """Share of the time of decoding."""
        return divided(self.seconds, self.decode_s)

    @property
    def gained_per_round(self) -> float | None:
        """Tokens gained in a pass, on average."""
        return divided(self.accepted, self.rounds)

    @property
    def bytes_per_round(self) -> float | None:
        return divided(self.bytes_read, self.rounds)

    @property
    def ms_per_step(self) -> float | None:
        """Time of proposing for each pass of its model."""
        return divided(1e3 * self.draft_s, self.passes)

    @property
    def step_share(self) -> float | None:
        """The same as a share of a pass of the target in plain decoding."""
        step = self.ms_per_step
        return None if step is None or not self.target_pass_s else step / 1e3 / self.target_pass_s

    def as_json(self) -> dict[str, Any]:
        return {
            "queries": self.queries,
            "proposed_tokens": self.proposed,
            "drafted_tokens": self.drafted,
            "accepted_tokens": self.accepted,
            "gained_per_round": rounded_or_none(self.gained_per_round),
            "ms_per_query": rounded_or_none(self.ms_per_query),
            "ms_per_round": rounded_or_none(self.ms_per_round),
            "share_of_time": rounded_or_none(self.share),
            "bytes_per_round": rounded_or_none(self.bytes_per_round),
            "steps": self.passes,
            "ms_per_step": rounded_or_none(self.ms_per_step),
            "step_of_a_pass": rounded_or_none(self.step_share),
        }
