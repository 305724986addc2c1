"""Costs of a drafted token in a batch: several sequences share the passes, and so their costs.

With k sequences in a pass that has c tokens of the others, and T(n) the seconds of a pass over n tokens:

    a token without drafts    T(k) / k          one's share of the pass that all make when nobody drafts
    d drafted tokens more     the greater of    T(c + 1 + d) - T(c + 1), their addition to this pass, and
                              (T(c + 1 + d) - T(k)) d / (c + 1 + d - k), their share of what all drafts add

The shares of all sequences come to the whole pass at least. So if none of them books more than it gains, all
together are not slower than without drafts, whichever way T bends. Alone (k = 1, c = 0) these are T's own
costs.
"""

from __future__ import annotations

from collections.abc import Mapping

from edgedec.control.costs import CostCurve
from edgedec.control.streamed_costs import StreamedCosts
from edgedec.core.experts import StoreCounts

_KEEPING = 0.8
"""Share of the average over passes that remains after one more."""
_SAMPLED_PASSES = 4
"""One in this many passes without drafts is measured."""

Slopes = dict[tuple[int, int, int], float]
"""Results of ``least_slope`` by the number of other sequences, their tokens, and the argument ``more``."""


class BatchCosts:
    """The costs of passes that ``count`` sequences share; ``views`` has those of each sequence's tokens."""

    def __init__(self, table: CostCurve | StreamedCosts, count: int) -> None:
        self._table = table
        self._passes = 0
        self._slopes: Slopes = {}
        self.views = tuple(SequenceCosts(table, self._slopes) for _ in range(count))

    def passed(self, tokens: Mapping[int, int], seconds: float, read: StoreCounts | None = None) -> None:
        """Note that a pass over ``tokens``, by sequence, took ``seconds``, and ``read`` experts."""
        total = sum(tokens.values())
        seconds = self._table.expected(total, seconds, read)
        self._passes += 1
        plain = total == len(tokens)
        if not plain or self._passes % _SAMPLED_PASSES == 0 or self._table.level_is_old:
            self._table.observe(total, seconds, plain=plain)
            self._slopes.clear()
        for number, own in tokens.items():
            self.views[number].shared(len(tokens) - 1, total - own)


class SequenceCosts:
    """``Costs`` of one sequence's tokens. ``BatchCosts`` observes the passes, with the tokens of all."""

    def __init__(self, table: CostCurve | StreamedCosts, slopes: Slopes) -> None:
        self._table = table
        self._others = 0
        self._each = 1.0
        """Mean tokens of another sequence in a pass."""
        self._slopes = slopes

    @property
    def longest(self) -> int:
        return self._table.longest

    @property
    def plain(self) -> float:
        """Seconds of a token without drafts."""
        return self._whole(self._others + 1) / (self._others + 1)

    def seconds(self, tokens: int) -> float:
        """Seconds of a pass that are on account of this sequence, with ``tokens`` tokens of it."""
        if not 1 <= tokens <= self.longest:
            raise ValueError(f"{tokens} tokens of a pass are outside 1 to {self.longest}")
        everyone, drafted = self._others + 1, tokens - 1
        total = round(self._others * self._each) + tokens
        if not drafted:
            return self.plain
        whole = self._whole(total)
        added = whole - self._whole(total - drafted)
        share = (whole - self._whole(everyone)) * drafted / (total - everyone)
        return self.plain + max(added, share)

    def price(self, seconds: float, tokens: int = 1) -> float:
        """See ``CostCurve.price``."""
        return seconds

    def expected(self, tokens: int, seconds: float, read: StoreCounts | None) -> float:
        """All ``seconds``: ``BatchCosts`` learns from passes."""
        return seconds

    def least_slope(self, more: int) -> float:
        """See ``CostCurve.least_slope``."""
        key = (self._others, round(self._others * self._each), more)
        slope = self._slopes.get(key)  # another thread may clear it at any time
        if slope is None:
            most = min(more, self.longest - 1)
            each = ((self.seconds(count + 1) - self.plain) / count for count in range(1, most + 1))
            slope = self._slopes[key] = min(each, default=0.0)
        return slope

    def observe(self, tokens: int, seconds: float) -> bool:
        """Ignore the time: a sequence's own view of a pass includes waiting for the others."""
        return False

    @property
    def plain_is_unclear(self) -> bool:
        """In a batch there are no passes over one token that would make it clear."""
        return not self._others and self._table.plain_is_unclear

    @property
    def level_is_old(self) -> bool:
        """``BatchCosts`` sees to it."""
        return False

    def doubt_level(self) -> bool:
        """Refuse: there are no passes over one token that would show it."""
        return False

    @property
    def drift(self) -> float:
        return self._table.drift

    def measured(self) -> dict[int, float]:
        return self._table.measured()

    def shared(self, others: int, tokens: int) -> None:
        """Note that a pass was shared with ``others`` other sequences, which had ``tokens`` tokens in all."""
        if others:
            self._each = _KEEPING * self._each + (1.0 - _KEEPING) * tokens / others
        self._others = others

    def _whole(self, tokens: int) -> float:
        """Seconds of a whole pass; beyond the table as many times the longest as it has more tokens."""
        longest = self._table.longest
        return self._table.seconds(min(tokens, longest)) * max(tokens / longest, 1.0)
