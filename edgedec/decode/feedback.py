"""Feedback that drafters have not been told yet.

A pass leaves nothing of a drafter in the processor's caches, and of many rounds told at once only the first
costs much. So drafters are told when one of them is queried.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from edgedec.core.quick_dataclass import dataclass
from edgedec.core.rows import HeadRows
from edgedec.core.tree import DraftTree

_MOST_ROUNDS = 32
"""Rounds kept, at some kilobytes each."""


@dataclass(frozen=True, slots=True)
class Feedback:
    """The target's answers to the last committed token and to ``tree`` behind it; see ``Drafter.observe``."""

    tree: DraftTree
    rows: HeadRows


class PendingFeedback:
    """Rounds in order: feedback, or none, and the tokens that were committed after it."""

    def __init__(self) -> None:
        self._rounds: list[tuple[Feedback | None, list[int]]] = []

    @property
    def full(self) -> bool:
        """Whether it is time to tell them, whoever is queried."""
        return len(self._rounds) > _MOST_ROUNDS

    def add(self, feedback: Feedback | None, tokens: Sequence[int]) -> None:
        """Note a round; without feedback its tokens join those of the round before."""
        if feedback is None and self._rounds:
            self._rounds[-1][1].extend(tokens)
            return
        if feedback:  # whole rows and hidden states would be megabytes
            feedback = Feedback(feedback.tree, replace(feedback.rows, logits=None, hidden=None))
        self._rounds.append((feedback, list(tokens)))

    def take(self) -> list[tuple[Feedback | None, list[int]]]:
        """Hand out all rounds, and keep none."""
        rounds, self._rounds = self._rounds, []
        return rounds
