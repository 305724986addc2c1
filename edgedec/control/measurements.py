"""Measurements over all rounds: costs, acceptance, records of queries, and accounts of what may be lost.

All times are handed in, in seconds; there is no clock and no randomness in here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from edgedec.control.acceptance import Acceptance
from edgedec.control.costs import USUAL_SPREAD, Costs
from edgedec.control.credit import Credit
from edgedec.control.level_check import LevelCheck
from edgedec.control.linear_fit import Line
from edgedec.control.query_record import ExplorationBudget, QueryRecord
from edgedec.control.reuse import Reuse

_FADING = 0.99
"""Share of the average rate that remains after one more round."""
_FIRST_PASSES = 3.0
"""Passes over one token each that the average rate begins with where the first passes only show the level:
they tell little, and a lucky round is no rate.
"""
_SAMPLED_ROUNDS = 4
"""One in this many plain rounds without a query is measured."""
_PLAIN_EVERY_ROUNDS = 128
"""Rounds after which one goes without drafts, to measure plain decoding."""
_MOST_OVERHEAD = 0.05
"""Most passes that one token's verification is believed to take."""


class Measurements:
    """The facts that decisions follow from. Rounds tell them what happened."""

    def __init__(
        self,
        costs: Costs,
        names: Sequence[str],
        *,
        peeking: Collection[str] = (),
        pretrained: Callable[[str], bool] = lambda name: False,
    ) -> None:
        """See ``Controller``."""
        self.costs = costs
        self.peeking = frozenset(peeking)
        self.reuse = Reuse()
        """Times of passes behind their queries."""
        self.pretrained = pretrained
        """Whether the probabilities of a drafter mean something from its first query on."""
        self.acceptance = Acceptance()
        self.credit = Credit()
        self.records = {name: QueryRecord() for name in names}
        self.exploration = ExplorationBudget()
        self.verify_overhead = Line()
        """Seconds of verification per drafted token."""
        self.turn = 0
        """Rounds so far."""
        self.fresh = set(names)
        """Drafters that have not been queried in this sequence."""
        self.costly = set(peeking)
        """Drafters of which one call is dear beside a plain pass."""
        self.stop_ids: Collection[int] = ()
        self._since_plain = 0
        """Rounds since the last one without drafts."""
        self._tokens = self._passes = _FIRST_PASSES if costs.level_is_old else 0.0
        self.level = LevelCheck(costs, self._rescale)
        """The speed of the machine."""
        self._long_passes = 0
        """Passes behind drafts in a row that took longer than usual."""

    def begin(self, stop_ids: Collection[int]) -> None:
        """Start a new sequence, which ends with any token of ``stop_ids``."""
        self.fresh = set(self.records)
        self.stop_ids = stop_ids
        self.credit.begin()

    def begin_round(self) -> None:
        """Count a round."""
        self.turn += 1

    def drop(self, name: str) -> None:
        """Forget a drafter that is gone: it is queried no more."""
        self.records.pop(name, None)
        self.costly.discard(name)
        self.fresh.discard(name)

    @property
    def rate(self) -> float:
        """Tokens per second lately, by what passes cost; never less than plain decoding's."""
        per_pass = self._tokens / self._passes if self._passes else 1.0
        return max(per_pass, 1.0) / self.costs.plain

    @property
    def due_plain(self) -> bool:
        """Whether it has become unclear what plain decoding costs."""
        unknown = self.costs.level_is_old and bool(self.peeking)  # their passes show no level
        return unknown or self._since_plain >= _PLAIN_EVERY_ROUNDS or self.costs.plain_is_unclear

    def classify(self, name: str) -> None:
        """Note whether a call of this drafter is costly now."""
        if name in self.peeking or self.records[name].costly(self.costs.plain):
            self.costly.add(name)
        else:
            self.costly.discard(name)

    def rested(self, passing: float | None) -> None:
        """Note a round in which nobody was queried; ``passing``: seconds of its pass, None if not measured.

        It lost nothing, and little is made of it.
        """
        self._since_plain = 0
        sampled = self.turn % _SAMPLED_ROUNDS == 0 or self.costs.level_is_old
        if passing is not None and sampled:
            self.level.plain(self.turn, passing)
        self.credit.book(1, 1.0)
        self.count(1, 1.0)

    def charged(self, seconds: float, usual: float) -> float:
        """Return the seconds to charge for a pass that usually takes ``usual``.

        An ordinary deviation is the machine's doing. So is one pass that took longer; two in a row are not.
        """
        self._long_passes = self._long_passes + 1 if seconds > (1.0 + USUAL_SPREAD) * usual else 0
        unusual = abs(seconds - usual) > USUAL_SPREAD * usual
        return seconds if unusual and self._long_passes != 1 else usual

    def _rescale(self, ratio: float) -> None:
        for record in self.records.values():
            record.rescale(ratio)

    def verified(self, drafted: int, seconds: float) -> None:
        """Note the seconds that verification took beside the pass; an interrupted one hardly counts."""
        most = _MOST_OVERHEAD * self.costs.plain * (1 + drafted)
        self.verify_overhead.observe(drafted, min(seconds, most))

    def passed(self, drafted: int) -> None:
        """Note that a pass fed ``drafted`` tokens of drafts."""
        self._since_plain = self._since_plain + 1 if drafted else 0

    def count(self, tokens: int, cost: float) -> None:
        """Note a round that committed ``tokens`` and took as long as ``cost`` plain passes.

        It discounts the gains of costly drafters so far.
        """
        if self.costly:
            for record in self.records.values():
                record.gains.fade()
            self.exploration.round(cost)
        self._tokens = _FADING * self._tokens + tokens
        self._passes = _FADING * self._passes + cost
