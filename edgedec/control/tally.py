"""Counts of drafted and accepted tokens, by drafter and by depth, the time of drafting, and a prediction.

The prediction is the time that rounds take by measured costs: of their passes, and of the drafters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from edgedec.core.quick_dataclass import dataclass


@dataclass(slots=True)
class Count:
    """Tokens drafted, and those of them that were right."""

    drafted: int = 0
    accepted: int = 0

    @property
    def rate(self) -> float | None:
        return self.accepted / self.drafted if self.drafted else None


@dataclass(slots=True)
class Effort:
    """The work of one drafter: queries, tokens proposed, seconds, and bytes read."""

    queries: int = 0
    proposed: int = 0
    draft_s: float = 0.0
    learn_s: float = 0.0
    """Seconds of reading committed tokens and lessons, between queries."""
    bytes_read: int = 0
    """Weights and KV cache that passes of its model read."""
    passes: int = 0
    """Passes of its model."""
    table_bytes: int = 0
    """Embedding tables from which these passes looked up rows, once a pass."""

    @property
    def seconds(self) -> float:
        return self.draft_s + self.learn_s


@dataclass(slots=True)
class Forecast:
    """Rounds by the pass costs known before each: tokens committed, and seconds with and without drafts."""

    tokens: int = 0
    passes_s: float = 0.0
    plain_s: float = 0.0
    """Seconds of plain decoding for as many tokens."""


@dataclass(slots=True)
class Tally:
    """Counts of a whole session. ``rounds`` are passes that committed a token, drafted for or not."""

    rounds: int = 0
    committed: int = 0
    drafted: int = 0
    accepted: int = 0
    draft_s: float = 0.0
    """Seconds of proposing, learning and planning, passes of draft models included."""
    verify_s: float = 0.0
    """The passes of these rounds."""
    by_source: dict[str, Count] = field(default_factory=dict)
    """Tokens fed, by drafter."""
    by_drafter: dict[str, Effort] = field(default_factory=dict)
    """Efforts of drafters, whether their tokens were fed or not."""
    forecast: Forecast = field(default_factory=Forecast)
    by_depth: list[Count] = field(default_factory=list)
    """Drafted: rounds that came to this depth with a token drafted there; accepted: of these, how often one
    of the tokens there was right. So these rates are conditional; their running product is the chance to get
    so deep.
    """

    @classmethod
    def of(cls, numbers: Sequence[float], drafters: Sequence[str], certain: str) -> Tally:
        """Make it of the core's numbers (kernels/core/api/speculation.cc); ``certain`` names that source."""
        rounds, committed, drafted, accepted, draft_s, verify_s, *rest = numbers
        counts, efforts = 3 + 2 * (len(drafters) + 1), 7 * len(drafters)
        by_source = zip((*drafters, certain), _counts(rest[3:counts]), strict=True)
        by_depth = _counts(rest[counts + efforts :])
        by_drafter = {
            name: _effort(rest[counts + 7 * at : counts + 7 * (at + 1)]) for at, name in enumerate(drafters)
        }
        return cls(
            int(rounds),
            int(committed),
            int(drafted),
            int(accepted),
            draft_s,
            verify_s,
            {name: count for name, count in by_source if count.drafted},
            by_drafter,
            Forecast(int(rest[0]), rest[1], rest[2]),
            by_depth,
        )

    def effort(self, name: str) -> Effort:
        """The effort of one drafter."""
        return self.by_drafter.get(name, Effort())

    @property
    def predicted_s(self) -> float:
        """Seconds of the forecast's rounds: of their passes by known costs, and of all drafters' calls."""
        return self.forecast.passes_s + sum(one.seconds for one in self.by_drafter.values())

    @property
    def predicted_tokens_per_s(self) -> float | None:
        """Tokens per second that follow from pass costs, draft costs and acceptance; None without costs."""
        return self.forecast.tokens / self.predicted_s if self.forecast.tokens else None

    @property
    def predicted_speed_up(self) -> float | None:
        """The same, beside plain decoding."""
        return self.forecast.plain_s / self.predicted_s if self.forecast.tokens else None

    def share(self, name: str) -> float:
        """Share of one drafter's calls in the time of all passes and drafting."""
        seconds = self.verify_s + self.draft_s
        return self.effort(name).seconds / seconds if seconds else 0.0

    def of_drafters(self) -> dict[str, dict[str, float]]:
        """Figures by drafter. ``drafted`` are tokens fed; ``accepted`` those gained by it."""
        found = {}
        for name in sorted(self.by_source.keys() | self.by_drafter.keys()):
            count, effort = self.by_source.get(name, Count()), self.by_drafter.get(name, Effort())
            found[name] = {
                "drafted": count.drafted,
                "accepted": count.accepted,
                "queries": effort.queries,
                "proposed": effort.proposed,
                "draft_s": round(effort.draft_s, 6),
                "learn_s": round(effort.learn_s, 6),
                "bytes_read": effort.bytes_read,
                "table_bytes": effort.table_bytes,
                "passes": effort.passes,
            }
        return found

    def as_json(self) -> dict[str, object]:
        """Return the figures about drafts as JSON fields."""
        return {
            "rounds": self.rounds,
            "drafted_tokens": self.drafted,
            "block_efficiency": _rounded(self.block_efficiency),
            "acceptance_rate": _rounded(self.acceptance_rate),
            "acceptance_by_depth": [_rounded(count.rate) for count in self.by_depth],
            "drafted_by": self.of_drafters(),
            "draft_s": _rounded(self.draft_s),
            "verify_s": _rounded(self.verify_s),
            "predicted_tokens_per_s": _rounded(self.predicted_tokens_per_s),
            "predicted_speed_up": _rounded(self.predicted_speed_up),
        }

    @property
    def block_efficiency(self) -> float | None:
        """Mean tokens committed per round."""
        return self.committed / self.rounds if self.rounds else None

    @property
    def acceptance_rate(self) -> float | None:
        """Share of the drafted tokens fed that were committed."""
        return self.accepted / self.drafted if self.drafted else None


def _counts(numbers: Sequence[float]) -> list[Count]:
    pairs = zip(numbers[::2], numbers[1::2], strict=True)
    return [Count(int(drafted), int(right)) for drafted, right in pairs]


def _effort(numbers: Sequence[float]) -> Effort:
    queries, proposed, draft_s, learn_s, read, passes, tables = numbers
    return Effort(int(queries), int(proposed), draft_s, learn_s, int(read), int(passes), int(tables))


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 6)
