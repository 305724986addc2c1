"""The controller: one for all sequences of an engine, which makes a round at a time.

All times are handed in, in seconds. Decisions follow from them and from the committed tokens; there is no
clock and no randomness in here. ``measurements`` has the facts, ``queries`` the decisions,
``controlled_round`` the course of a round.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from edgedec.control.controlled_round import ControlledRound, RestingRound
from edgedec.control.costs import Costs
from edgedec.control.measurements import Measurements
from edgedec.control.queries import Queries
from edgedec.control.round import Round


class Controller:
    """Plans rounds so that decoding is as quick as drafts allow, and never slower than without."""

    def __init__(
        self,
        costs: Costs,
        names: Sequence[str],
        limit: int,
        *,
        peeking: Collection[str] = (),
        pretrained: Callable[[str], bool] = lambda name: False,
    ) -> None:
        """``peeking``: drafters whose queries compute parts of the pass that follows; costly, always.

        ``pretrained``: whether the probabilities of a drafter mean something from its first query on.
        """
        self.measured = Measurements(costs, names, peeking=peeking, pretrained=pretrained)
        self._queries = Queries(self.measured, limit)

    def begin(self, stop_ids: Collection[int]) -> None:
        """Start a new sequence, which ends with any token of ``stop_ids``."""
        self.measured.begin(stop_ids)

    def drop(self, name: str) -> None:
        """Forget a drafter that is gone: it is queried no more."""
        self.measured.drop(name)

    def round(self, room: int) -> Round:
        """Start the next round, which may feed ``room`` drafted tokens."""
        self.measured.begin_round()
        if self._queries.rest():
            return RestingRound(self.measured, unprofitable=self._queries.unprofitable)
        return ControlledRound(self.measured, self._queries, room)
