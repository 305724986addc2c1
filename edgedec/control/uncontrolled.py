"""Rounds without control: every drafter is queried, and its tokens are fed whether they pay or not."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from edgedec.control.merge import merged
from edgedec.control.round import Ask, Query, RoundTimes
from edgedec.core.tree import EMPTY, DraftTree


class Uncontrolled:
    """Makes rounds over the drafters ``names``."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = list(names)
        self.stop_ids: Collection[int] = ()

    def begin(self, stop_ids: Collection[int]) -> None:
        """Start a new sequence, which ends with any token of ``stop_ids``."""
        self.stop_ids = stop_ids

    def drop(self, name: str) -> None:
        """Query this drafter no more."""
        self.names.remove(name)

    def round(self, room: int) -> UncontrolledRound:
        """A round that may feed ``room`` drafted tokens."""
        return UncontrolledRound(self, room)


class UncontrolledRound:
    """See ``Round``."""

    resting = False
    unprofitable = False
    pass_s = 0.0

    def __init__(self, makes: Uncontrolled, room: int) -> None:
        self._makes = makes
        self._room = room

    def draft(self, ask: Ask, certain: DraftTree = EMPTY) -> DraftTree:
        """The best tokens of all drafters and of ``certain``."""
        if self._room < 1:
            return EMPTY
        answers = [ask(Query(name, self._room, 0.0)) for name in tuple(self._makes.names)]
        trees = [certain, *(answer.tree for answer in answers if answer and len(answer.tree))]
        return merged(trees, self._room, lambda source, prob: prob, self._makes.stop_ids)

    def settle(self, committed: Sequence[int], times: RoundTimes) -> None:
        """Nothing is measured."""
