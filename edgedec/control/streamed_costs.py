"""Costs of passes that read experts from a disk: what they compute, and what they wait for.

The time of such a pass depends on which experts were in memory, so what passes took says little of the next
ones. The two parts are therefore learned apart: a curve has the seconds that passes compute, and waits are

    seconds of a read that is waited for x (reads of a pass over one token + those that further tokens add)

A token behind others takes some of the experts that they have read. If each expert is as likely as any other,
token n adds a share of (1 - chosen / count)^(n - 1) of the reads of one that is alone; measured reads say by
which factor the tokens that drafts have are better or worse than that. Where text repeats, its experts are
still in memory: then passes read little, and drafts cost little.
"""

from __future__ import annotations

from edgedec.control.costs import CostCurve
from edgedec.core.experts import Experts, StoreCounts

_WEIGHT = 0.1
"""Weight of a pass among earlier ones."""
_BYTES_PER_S = 1e9
"""Believed of a disk until a read was waited for."""
_PRIOR_READS = 4.0
"""Reads that the belief counts as much as."""
_KEEPING = 0.97
"""Share of the evidence about drafts that remains after a plain pass. A belief takes the place of the rest:
so drafts that read too much are tried again.
"""
_FEW = 0.01
"""Share of a token's experts below which reads are luck."""


class StreamedCosts:
    """``Costs`` of passes over one sequence's tokens, or a batch's, whose experts are read from a disk.

    ``resident``: the share of the experts that are in memory at a time. What ``curve`` is told of passes has
    no waits in it.
    """

    def __init__(self, curve: CostCurve, experts: Experts, resident: float) -> None:
        self._curve = curve
        token = experts.layers * experts.chosen
        self._few = max(_FEW * token, 1.0)
        self._reads = token * (1.0 - resident)
        """Reads of a pass over one token."""
        self._seen = 0
        self._more = self._beside = self._reads + self._few
        """Reads that a drafted token added, by its share, and those of one alone at that time."""
        self._waited = _PRIOR_READS * experts.slot_bytes / _BYTES_PER_S
        """Seconds of waiting, lately, and the reads that were waited for."""
        self._waited_for = _PRIOR_READS
        stays = 1.0 - experts.chosen / experts.count
        self._adds = [0.0]
        for tokens in range(1, curve.longest):
            self._adds.append(self._adds[-1] + stays**tokens)

    def waits(self, tokens: int) -> float:
        """Return the seconds that a pass over ``tokens`` waits for reads, as passes were lately."""
        ratio = self._more / self._beside
        reads = self._reads + ratio * (self._reads + self._few) * self._adds[tokens - 1]
        return reads * self._waited / self._waited_for

    def expected(self, tokens: int, seconds: float, read: StoreCounts | None) -> float:
        """See ``Costs.expected``. Learns from what the pass ``read``."""
        if read is None or not 1 <= tokens <= self.longest:
            return seconds
        missed = read.held - read.hits
        self._waited = (1.0 - _WEIGHT) * self._waited + read.waited_s
        self._waited_for = (1.0 - _WEIGHT) * self._waited_for + missed
        if tokens == 1:
            self._seen += 1
            self._reads += max(_WEIGHT, 1.0 / (self._seen + 1)) * (missed - self._reads)
            self._weigh(_KEEPING, self._reads + self._few)
        else:
            self._weigh(1.0 - _WEIGHT, max(missed - self._reads, 0.0) / self._adds[tokens - 1])
        return max(seconds - read.waited_s, 0.0) + self.waits(tokens)

    def _weigh(self, keeping: float, more: float) -> None:
        self._more = keeping * self._more + (1.0 - keeping) * more
        self._beside = keeping * self._beside + (1.0 - keeping) * (self._reads + self._few)

    @property
    def longest(self) -> int:
        return self._curve.longest

    @property
    def plain(self) -> float:
        """Seconds of a pass over one token."""
        return self.seconds(1)

    def seconds(self, tokens: int) -> float:
        """Seconds of a pass over 1 to ``longest`` tokens. Raises ValueError outside."""
        return self._curve.seconds(tokens) + self.waits(tokens)

    def price(self, seconds: float, tokens: int = 1) -> float:
        """See ``CostCurve.price``."""
        return seconds

    def least_slope(self, more: int) -> float:
        """See ``CostCurve.least_slope``."""
        most = min(more, self.longest - 1)
        slopes = ((self.seconds(1 + count) - self.plain) / count for count in range(1, most + 1))
        return min(slopes, default=0.0)

    def observe(self, tokens: int, seconds: float, *, plain: bool = False) -> bool:
        """Record a pass that took ``seconds``, with the waits that are expected of it."""
        inside = 1 <= tokens <= self.longest
        return inside and self._curve.observe(tokens, seconds - self.waits(tokens), plain=plain)

    @property
    def plain_is_unclear(self) -> bool:
        return self._curve.plain_is_unclear

    @property
    def level_is_old(self) -> bool:
        return self._curve.level_is_old

    def doubt_level(self) -> bool:
        """See ``CostCurve.doubt_level``."""
        return self._curve.doubt_level()

    @property
    def drift(self) -> float:
        return self._curve.drift

    def measured(self) -> dict[int, float]:
        """The seconds that passes compute: waits depend on the text, and are not kept."""
        return self._curve.measured()
