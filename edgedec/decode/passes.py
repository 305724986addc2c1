"""Passes over the committed tokens: how long one may be, its time, and the progress of a prompt."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
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


@dataclass(frozen=True, slots=True)
class PassTimer:
    """Times passes by a clock (seconds). ``reads`` counts what was read of experts on a disk, if any are."""

    clock: Callable[[], float]
    reads: Callable[[], StoreCounts] | None = None

    def timed(self, run: Callable[[], HeadRows]) -> tuple[HeadRows, PassTime]:
        """Run a pass; returns its rows and its time."""
        before = self.reads() if self.reads else None
        began = self.clock()
        head = run()
        seconds = self.clock() - began
        return head, PassTime(seconds, self.reads().since(before) if self.reads and before else None)


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
        self._timer = timer
        self.work = Work()
        """Counts of all passes so far."""

    def run(self, planned: Planned, rows: Rows) -> tuple[HeadRows, PassTime]:
        """Run a pass; returns its rows and its time."""
        forward = self._forward
        run = partial(forward.extend, planned.tokens, parents=planned.parents, rows=rows)
        found = self._timer.timed(run) if self._timer else (run(), PassTime(None))
        evicting = forward.evicting
        slots = forward.length if evicting is None else evicting.resident
        self.work = self.work.plus(len(planned.tokens), slots, forward.spec.window)
        return found

    def report(self, progress: Steps | None, committed: Sequence[int]) -> None:
        """Tell ``progress`` how much of ``committed`` the cache holds."""
        if progress:
            progress(min(self._forward.length, len(committed)), len(committed))

    def longest(self, committed: Sequence[int]) -> int:
        """Most tokens of the next pass; a full cache evicts some first."""
        most = self._forward.caps.max_pass
        return min(most, self._policy.room(committed)) if self._policy else most
