"""Joules a token of replies whose own statistics have them.

Each reply was measured or estimated by itself. Replies of one source are added up, and those of another are a
line of their own: a measurement and an estimate never make one figure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from edgedec.bench.harness.energy import TokenEnergy
from edgedec.bench.studies.energies import Energies


@dataclass(frozen=True, slots=True)
class ReplyEnergy:
    """The joules of decoding one reply of ``tokens`` tokens after the first."""

    source: str
    estimated: bool
    tokens: int
    joules: float
    low: float = 0.0
    high: float = 0.0
    reason: str = ""

    @classmethod
    def of(cls, energy: Mapping[str, Any] | None, completion_tokens: int) -> Self | None:
        """Read ``stats.energy`` of a reply (``runtime.measures.Energy.as_json``); None for one of a token.

        Raises KeyError, TypeError or ValueError for fields that are missing or mistyped.
        """
        tokens = completion_tokens - 1
        if not energy or tokens < 1 or energy["joules_per_token"] is None:
            return None
        low, high = (float(energy[f"per_token_{end}"] or 0.0) for end in ("low", "high"))
        joules, reason = float(energy["joules_per_token"]), str(energy.get("reason", ""))
        source, estimated = str(energy["source"]), bool(energy["estimated"])
        return cls(source, estimated, tokens, tokens * joules, tokens * low, tokens * high, reason)


def energies_of_stats(replies: Mapping[str, Sequence[ReplyEnergy | None]]) -> Energies:
    """Return the joules a token by side; where sources differ, by side and source.

    ``reason`` is that of most estimates.
    """
    found: dict[tuple[str, str], list[ReplyEnergy]] = {}
    for side, said in replies.items():
        for one in said:
            if one is not None:
                found.setdefault((side, one.source), []).append(one)
    several = len({source for _, source in found}) > 1
    by_side = {
        _label(side, some[0]) if several else side: _together(some) for (side, _), some in found.items()
    }
    reasons = Counter(one.reason for some in found.values() for one in some if one.estimated)
    return Energies(by_side, reasons.most_common(1)[0][0] if reasons else "")


def _label(side: str, one: ReplyEnergy) -> str:
    return f"{side}, estimated" if one.estimated else f"{side}, by {one.source}"


def _together(some: Sequence[ReplyEnergy]) -> TokenEnergy:
    tokens = sum(one.tokens for one in some)
    joules = sum(one.joules for one in some) / tokens
    if not some[0].estimated:
        return TokenEnergy(some[0].source, False, joules)
    low, high = (sum(getattr(one, end) for one in some) / tokens for end in ("low", "high"))
    return TokenEnergy(some[0].source, True, joules, low, high)
