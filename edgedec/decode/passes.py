"""Passes over the committed tokens: how long one may be, its time, and the progress of a prompt."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from edgedec.core.experts import StoreCounts
from edgedec.core.forward import Forward
from edgedec.core.progress import Steps
from edgedec.core.quick_dataclass import dataclass
from edgedec.core.rows import HeadRows, Rows
from edgedec.core_lib.engine import Planned
from edgedec.decode.records import PassRecord
from edgedec.eviction.policy import Policy
from edgedec.metrics.traffic import Work

LONGEST_PASS = 128
"""Tokens. A reply can be interrupted between passes, and longer ones take no less time per token."""


class PassTime(NamedTuple):
    """Seconds of a pass, and what it read of experts on a disk; None: not measured, or there are none."""

    seconds: float | None
    read: StoreCounts | None = None


_UNTIMED = PassTime(None)


@dataclass(frozen=True, slots=True)
class PassTimer:
    """Times passes by a clock (seconds). ``reads`` counts what was read of experts on a disk, if any are."""

    clock: Callable[[], float]
    reads: Callable[[], StoreCounts] | None = None


class Passes:
    """Runs passes of a model, and counts them. ``timer`` times them."""

    def __init__(
        self,
        forward: Forward,
        policy: Policy | None,
        observe: Callable[[PassRecord], None] | None,
        timer: PassTimer | None,
    ) -> None:
        self._forward = forward
        self._policy = policy
        self.observe = observe
        """Sees a record of each pass, if there is one."""
        self._clock = timer.clock if timer else None
        self._reads = timer.reads if timer else None
        self._window = forward.spec.window
        self._counts = 0, 0, 0, 0

    @property
    def work(self) -> Work:
        """Counts of all passes so far."""
        return Work(*self._counts)

    def run(self, planned: Planned, rows: Rows) -> tuple[HeadRows, PassTime]:
        """Run a pass; returns its rows and its time."""
        forward, clock = self._forward, self._clock
        if clock is None:
            head, time = forward.extend(planned.tokens, parents=planned.parents, rows=rows), _UNTIMED
        else:
            before = self._reads() if self._reads else None
            began = clock()
            head = forward.extend(planned.tokens, parents=planned.parents, rows=rows)
            seconds = clock() - began
            time = PassTime(seconds, self._reads().since(before) if self._reads and before else None)
        # Policies alone let tokens leave the cache.
        evicting = forward.evicting if self._policy else None
        slots = forward.length if evicting is None else evicting.resident
        passes, tokens, filled, seen = self._counts  # one object, which a batch asks for in another thread
        seen += min(slots, self._window)
        self._counts = passes + 1, tokens + len(planned.tokens), filled + slots, seen
        return head, time

    def report(self, progress: Steps | None, committed: Sequence[int]) -> None:
        """Tell ``progress`` how much of ``committed`` the cache holds."""
        if progress:
            progress(min(self._forward.length, len(committed)), len(committed))

    def longest(self, committed: Sequence[int]) -> int:
        """Most tokens of the next pass; a full cache evicts some first."""
        most = self._forward.caps.max_pass
        return min(most, self._policy.room(committed)) if self._policy else most
