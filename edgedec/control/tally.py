"""Counts of drafted and accepted tokens, by drafter and by depth, and the time of drafting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

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

    def as_json(self) -> dict[str, object]:
        """Return the figures about drafts as JSON fields."""
        return {
            "rounds": self.rounds,
            "drafted_tokens": self.drafted,
            "block_efficiency": _rounded(self.block_efficiency),
            "acceptance_rate": _rounded(self.acceptance_rate),
            "acceptance_by_depth": [_rounded(count.rate) for count in self.by_depth],
            "drafted_by": {
                name: {"drafted": count.drafted, "accepted": count.accepted}
                for name, count in sorted(self.by_source.items())
            },
            "draft_s": _rounded(self.draft_s),
            "verify_s": _rounded(self.verify_s),
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
