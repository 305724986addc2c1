"""Passes over the committed tokens: how long one may be, its time, and the progress of a prompt."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from edgedec.core.experts import StoreCounts
from edgedec.core.forward import Forward
from edgedec.core.progress import Steps
from edgedec.core.quick_dataclass import dataclass
from edgedec.core.rows import FloatArray, HeadRows, Rows
from edgedec.core.tree import EMPTY, DraftTree
from edgedec.decode.records import PassRecord
from edgedec.eviction.policy import Policy
from edgedec.metrics.traffic import Work

LONGEST_PASS = 128
"""Tokens. A reply can be interrupted between passes, and longer ones take no less time per token."""

NO_ROWS = Rows(indices=())


@dataclass(frozen=True, slots=True)
class Reader:
    """Takes the position of a token and hidden states from there on: the outputs of the layers ``taps``."""

    taps: tuple[int, ...]
    read: Callable[[int, FloatArray], None]


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
    """Feeds a model's cache. ``timer`` times passes."""

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

    def catch_up(
        self, committed: Sequence[int], progress: Steps | None, reader: Reader | None = None
    ) -> tuple[list[int], int]:
        """Feed the tokens of ``committed`` that the cache lacks, except the tokens of the last pass.

        Returns these, and how many tokens that pass can have in all. They are one token at least. ``reader``
        is told the hidden states of the others.
        """
        while len(committed) - self._forward.length > (most := self._longest(committed)):
            self._feed(committed, most, reader)
            self.report(progress, committed)
        return list(committed[self._forward.length :]), most

    def run(self, tokens: list[int], tree: DraftTree, rows: Rows) -> tuple[HeadRows, PassTime]:
        """One pass over ``tokens``, a chain, and ``tree`` behind the last of them; its rows and time."""
        parents = None
        if len(tree):
            behind = len(tokens)
            parents = [*range(-1, behind - 1), *(behind + parent for parent in tree.parents)]
        forward = self._forward
        run = partial(forward.extend, [*tokens, *tree.tokens], parents=parents, rows=rows)
        head, time = self._timer.timed(run) if self._timer else (run(), PassTime(None))
        evicting = forward.evicting
        slots = forward.length if evicting is None else evicting.resident
        self.work = self.work.plus(len(tokens) + len(tree), slots, forward.spec.window)
        return head, time

    def report(self, progress: Steps | None, committed: Sequence[int]) -> None:
        """Tell ``progress`` how much of ``committed`` the cache holds."""
        if progress:
            progress(min(self._forward.length, len(committed)), len(committed))

    def _feed(self, committed: Sequence[int], count: int, reader: Reader | None) -> None:
        """One pass over the next ``count`` committed tokens, of which no rows are needed."""
        start = self._forward.length
        rows = replace(NO_ROWS, taps=reader.taps) if reader else NO_ROWS
        head, time = self.run(list(committed[start : start + count]), EMPTY, rows)
        if reader and head.hidden is not None:
            reader.read(start, head.hidden)
        if self.observe:
            self.observe(PassRecord(start, count, 0, time.seconds))

    def _longest(self, committed: Sequence[int]) -> int:
        most = min(self._forward.caps.max_pass, LONGEST_PASS)
        return min(most, self._policy.room(committed)) if self._policy else most
