"""Counts of drafted and accepted tokens, by drafter and by depth, the time of drafting, and a prediction.

The prediction is the time that rounds take by measured costs: of their passes, and of the drafters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from edgedec.core.quick_dataclass import dataclass
from edgedec.core.tree import ROOT, DraftTree


@dataclass(slots=True)
class Count:
    """Tokens drafted, and those of them that were right."""

    drafted: int = 0
    accepted: int = 0

    def add(self, right: bool) -> None:
        self.drafted += 1
        self.accepted += right

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

    def add(self, tokens: int, pass_s: float, plain_pass_s: float) -> None:
        """Count a round that committed ``tokens``, whose pass takes ``pass_s`` seconds by its cost."""
        self.tokens += tokens
        self.passes_s += pass_s
        self.plain_s += tokens * plain_pass_s


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

    def add(self, fed: DraftTree, accepted: Sequence[int], committed: int, seconds: float) -> None:
        """Count a round: the draft fed, its accepted nodes, tokens committed in all, seconds of the pass."""
        self.rounds += 1
        self.committed += committed
        self.verify_s += seconds
        if not len(fed):
            return
        self.drafted += len(fed)
        self.accepted += len(accepted)
        for node, source in enumerate(fed.sources):
            self.by_source.setdefault(source, Count()).add(node in accepted)
        for depth, level in enumerate((ROOT, *accepted)[:committed]):
            if level not in fed.parents:
                break
            if depth == len(self.by_depth):
                self.by_depth.append(Count())
            self.by_depth[depth].add(depth < len(accepted))

    def effort(self, name: str) -> Effort:
        """The effort of one drafter, to add to."""
        return self.by_drafter.setdefault(name, Effort())

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


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 6)
