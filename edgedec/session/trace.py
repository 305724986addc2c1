"""The trace of a reply: the drafter and the round of each token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from edgedec.core.quick_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Traced:
    """One committed token.

    ``source`` is its drafter and ``depth`` its depth in the draft, from 1; None and 0 for the target's own.
    ``round`` counts the passes that committed a token, from 1, the prompt's included.
    """

    token: int
    text: str
    source: str | None
    depth: int
    round: int
    model: str | None = None
    """The model that wrote it, where two take turns."""

    def as_json(self) -> dict[str, int | str | None]:
        """Return the fields, without ``model`` where one model writes everything."""
        fields = asdict(self)
        if self.model is None:
            del fields["model"]
        return fields


def traced(
    tokens: Sequence[int],
    texts: Sequence[str],
    sources: Sequence[str | None],
    models: Sequence[str | None] = (),
) -> list[Traced]:
    """Combine a reply's tokens with their texts, drafters and models; a model's own token ends each round."""
    found: list[Traced] = []
    rounds, depth = 1, 1
    for token, text, source, model in zip(
        tokens, texts, sources, models or [None] * len(tokens), strict=True
    ):
        found.append(Traced(token, text, source, depth if source else 0, rounds, model))
        rounds, depth = (rounds, depth + 1) if source else (rounds + 1, 1)
    return found


def summary(trace: Sequence[Traced]) -> str:
    """Summarise in one line: ``12 rounds, 2.50 tokens each: 12 of the target, lookup 14, recycling 4``."""
    if not trace:
        return "no tokens"
    counts: dict[str, int] = {}
    for one in trace:
        counts[one.source or ""] = counts.get(one.source or "", 0) + 1
    rounds = trace[-1].round
    parts = [f"{counts.pop('', 0)} of the target", *(f"{name} {counts[name]}" for name in sorted(counts))]
    models = dict.fromkeys(one.model for one in trace if one.model)
    written = (f"{name} wrote {sum(one.model == name for one in trace)}" for name in models)
    parts[-1] = "; ".join((parts[-1], *written))
    word = "round" if rounds == 1 else "rounds"
    return f"{rounds} {word}, {len(trace) / rounds:.2f} tokens each: {', '.join(parts)}"
