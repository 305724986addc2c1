"""What a drafted token costs in company: passes, and so their prices, are several conversations'.

With k conversations in a pass that has c tokens of the others, and T(n) the seconds of a pass over n tokens:

    a token without drafts    T(k) / k          one's share of the pass that all make who draft nothing
    d drafted tokens more     the greater of    T(c + 1 + d) - T(c + 1), what they add to this pass, and
                              (T(c + 1 + d) - T(k)) d / (c + 1 + d - k), their share of what all drafts add

The shares of all conversations come to the whole pass at least. So if none of them books more than it wins,
all together are not slower than without drafts, whichever way T bends. Alone (k = 1, c = 0) these are T's own
prices.
"""

from __future__ import annotations

from collections.abc import Mapping

from edgedec.control.costs import CostCurve

_KEEPING = 0.8
"""Of the average over passes: what remains of one after one more."""
_GLANCE = 4
"""Of passes in which nobody drafts, one in so many is looked at for its time."""


Slopes = dict[tuple[int, int, int], float]
"""What ``least_slope`` found, by the other conversations, their tokens, and the tokens it was asked for."""


class Company:
    """The table of what passes cost, shared by ``count`` conversations, and the view that each has of it."""

    def __init__(self, table: CostCurve, count: int) -> None:
        self._table = table
        self._passes = 0
        self._slopes: Slopes = {}
        self.views = tuple(CompanyCosts(table, self._slopes) for _ in range(count))

    def passed(self, tokens: Mapping[int, int], seconds: float) -> None:
        """A pass over so many ``tokens`` of each of these conversations took ``seconds``."""
        total = sum(tokens.values())
        self._passes += 1
        plain = total == len(tokens)
        if not plain or self._passes % _GLANCE == 0:
            self._table.observe(total, seconds, plain=plain)
            self._slopes.clear()
        for number, own in tokens.items():
            self.views[number].met(len(tokens) - 1, total - own)


class CompanyCosts:
    """``Costs`` of one conversation's tokens. Its passes are observed by ``Company``, in all their tokens."""

    def __init__(self, table: CostCurve, slopes: Slopes) -> None:
        self._table = table
        self._others = 0
        self._each = 1.0
        """Tokens that one of the others has in a pass, on average."""
        self._slopes = slopes

    @property
    def longest(self) -> int:
        return self._table.longest

    @property
    def plain(self) -> float:
        """Seconds of a token without drafts."""
        return self._whole(self._others + 1) / (self._others + 1)

    def seconds(self, tokens: int) -> float:
        """Of the pass, as far as they are on account of this conversation and ``tokens`` of it."""
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

    def least_slope(self, more: int) -> float:
        """See ``CostCurve.least_slope``."""
        key = (self._others, round(self._others * self._each), more)
        slope = self._slopes.get(key)  # another thread may forget it at any time
        if slope is None:
            most = min(more, self.longest - 1)
            each = ((self.seconds(count + 1) - self.plain) / count for count in range(1, most + 1))
            slope = self._slopes[key] = min(each, default=0.0)
        return slope

    def observe(self, tokens: int, seconds: float) -> bool:
        """What this conversation saw of a pass includes waiting for the others: it says nothing."""
        return False

    @property
    def plain_is_unclear(self) -> bool:
        """In company there are no passes over one token to make it clear."""
        return not self._others and self._table.plain_is_unclear

    @property
    def drift(self) -> float:
        return self._table.drift

    def measured(self) -> dict[int, float]:
        return self._table.measured()

    def met(self, others: int, tokens: int) -> None:
        """A pass was shared with so many other conversations, which had ``tokens`` tokens in all."""
        if others:
            self._each = _KEEPING * self._each + (1.0 - _KEEPING) * tokens / others
        self._others = others

    def _whole(self, tokens: int) -> float:
        """Seconds of a whole pass; beyond the table as many times the longest as it has more tokens."""
        longest = self._table.longest
        return self._table.seconds(min(tokens, longest)) * max(tokens / longest, 1.0)
