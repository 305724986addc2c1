"""The costs of a model's passes on this machine: measured once, kept in a file, corrected as they drift.

A file keeps the costs of passes over several tokens in relation to one token, which hardly depend on other
load. How quick the machine is at the moment shows in the first passes of a reply (``CostCurve``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from edgedec.control import CostCurve, StreamedCosts
from edgedec.core.errors import StorageError
from edgedec.core.forward import Forward
from edgedec.core.progress import Notice
from edgedec.core.quick_dataclass import dataclass
from edgedec.core.rows import ALL_ROWS
from edgedec.costs.cost_file import CostFile, KeptCosts
from edgedec.metrics.stats import Clock

if TYPE_CHECKING:
    from edgedec.backends.backend import ExpertSlots

_MEASURED = (1, 2, 4, 8, 9, 16, 17, 33)
"""Both sides of steps: kernels multiply 8, 16 or 32 tokens at once, by row; one more takes another turn."""
_LONGEST_MEASURED = 128
_BETWEEN_ONES = 3
"""Passes of a group, which two passes over one token enclose."""
LONGEST_TOKENS = 16
"""Tokens of the longest pass that one sequence verifies; a batch has longer ones."""
_ROUNDS, _MOST_ROUNDS = 3, 9
_ENOUGH_S = 0.5
"""More than the fewest rounds are made only while they are quicker than this."""
_PATIENCE_S = 20.0
"""A slow device would take minutes for three rounds."""
_STREAMED_PATIENCE_S = 4.0
"""Passes over many tokens read nearly all experts from the disk."""
_QUIET_S = 1.0
_STRIDE = 7919
"""Between tokens that are fed one after the other: a prime, so that all come before one comes again."""


@dataclass
class PassCosts:
    """A curve of costs, and the file that keeps it."""

    curve: CostCurve | StreamedCosts
    file: CostFile | None = None
    kept: KeptCosts | None = None

    def keep(self, seconds: Mapping[int, float]) -> None:
        """Write ``seconds``, which replies corrected, to the file. Nothing happens where that fails."""
        if self.file and self.kept:
            self.kept = self.kept.corrected(seconds, self.file.moment(seconds))
            self.file.write_quietly(self.kept)


def known_costs(
    forward: Forward,
    file: CostFile | None,
    *,
    clock: Clock,
    notice: Notice,
    longest: int = LONGEST_TOKENS,
    store: ExpertSlots | None = None,
) -> PassCosts:
    """Read the costs of passes up to ``longest`` tokens from ``file``, or measure them in a second or two.

    With a ``store`` of experts that are not all in memory, what passes wait for them is priced beside. Costs
    that disagreed with what ran are measured again (``KeptCosts.stands``). ``notice`` hears of each
    measurement and what it is for: other threads, another type of KV cache and longer passes cost otherwise.
    """
    kept = file.read() if file else None
    if file and kept and max(kept.seconds) >= sizes_up_to(longest, forward)[-1]:
        if kept.stands(file.now()):
            return PassCosts(_with_waits(CostCurve(kept.seconds, old=True), store), file, kept)
        notice(f"measuring again what passes of {forward.spec.name} cost: they ran otherwise than measured")
    elif kept:
        notice(f"measuring what longer passes of {forward.spec.name} cost, for several conversations, once")
    else:
        setting = file.setting if file else "on this machine"
        notice(f"measuring what passes of {forward.spec.name} cost {setting}, once")
    seconds = measure_costs(forward, TimedPasses(clock, notice, store), longest)
    curve = _with_waits(CostCurve(seconds), store)
    if file is None:
        return PassCosts(curve)
    kept = file.measured(seconds)
    try:
        file.write(kept)
    except StorageError as error:
        notice(f"note: {error.message}; the next start measures again")
    return PassCosts(curve, file, kept)


def _with_waits(curve: CostCurve, store: ExpertSlots | None) -> CostCurve | StreamedCosts:
    if store is None or store.slots >= store.experts.total:
        return curve
    return StreamedCosts(curve, store.experts, store.slots / store.experts.total)


def measure_costs(forward: Forward, timed: TimedPasses, longest: int = LONGEST_TOKENS) -> dict[int, float]:
    """Return the seconds of passes over 1 to ``longest`` tokens, all rows wanted. Empties the KV cache.

    Three or fewer are timed between two passes over one token, and only the ratio to these counts, the median
    of some rounds: load that lasts slows down both, and load that comes and goes falls on few rounds.
    """
    sizes = sizes_up_to(longest, forward)[1:]
    ratios: dict[int, list[float]] = {size: [] for size in sizes}
    groups = [sizes[at : at + _BETWEEN_ONES] for at in range(0, len(sizes), _BETWEEN_ONES)]
    ones = [timed.run(forward, 1)]
    for turn in range(_MOST_ROUNDS):
        if turn and timed.elapsed > (timed.patience_s if turn < _ROUNDS else _ENOUGH_S):
            break
        for place, group in enumerate(groups):
            seconds = [timed.run(forward, size) for size in group]
            ones.append(timed.run(forward, 1))
            for size, ratio in zip(group, _ratios(seconds, ones[-2], ones[-1]), strict=True):
                ratios[size].append(ratio)
            timed.report((turn + (place + 1) / len(groups)) / _ROUNDS)
        if not groups:
            ones.append(timed.run(forward, 1))
    timed.conclude()
    forward.rewind(0)
    plain = float(np.median(ones))
    return {1: plain} | {size: plain * float(np.median(found)) for size, found in ratios.items()}


def _ratios(seconds: Sequence[float], before: float, after: float) -> list[float]:
    """Return the ratios of times to that of one token, which goes evenly from ``before`` to ``after``."""
    found, passed, total = [], 0.0, sum(seconds)
    for took in seconds:
        part = (passed + took / 2.0) / total
        found.append(took / (before + (after - before) * part))
        passed += took
    return found


class TimedPasses:
    """Passes over empty KV caches, timed by ``clock``; ``notice`` hears of progress after a while.

    What they wait for experts from ``store`` is none of their time.
    """

    def __init__(self, clock: Clock, notice: Notice, store: ExpertSlots | None = None) -> None:
        self._clock, self._notice, self._store = clock, notice, store
        self.patience_s = _STREAMED_PATIENCE_S if store else _PATIENCE_S
        """Beyond it one round has to do."""
        self._started = self._spoken = clock()
        self._fed = 0

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return self._clock() - self._started

    def run(self, forward: Forward, size: int) -> float:
        """Return the seconds of a pass over ``size`` tokens, all rows wanted."""
        forward.rewind(0)
        tokens = self._tokens(forward, size)
        began = self._working()
        forward.extend(tokens, rows=ALL_ROWS)
        return self._working() - began

    def _working(self) -> float:
        return self._clock() - (self._store.counts().waited_s if self._store else 0.0)

    def _tokens(self, forward: Forward, size: int) -> list[int]:
        """Return the tokens of a pass: always others where a token decides which experts are read."""
        if forward.spec.experts is None:
            return [0] * size
        first, self._fed = self._fed, self._fed + size
        return [number * _STRIDE % forward.spec.vocab_size for number in range(first, self._fed)]

    def report(self, part: float) -> None:
        """Say that ``part`` of 1 is done, if there was no notice for a while."""
        if self._clock() - self._spoken > _QUIET_S:
            self._notice(f"measuring: {min(100 * part, 99):.0f}%")
            self._spoken = self._clock()

    def conclude(self) -> None:
        """Say that all is done, if there was a notice of progress."""
        if self._spoken != self._started:
            self._notice("measuring: 100%")


def sizes_up_to(longest: int, forward: Forward) -> list[int]:
    """Return the numbers of tokens that passes of ``forward`` are measured with, at most ``longest``."""
    most = min(longest, forward.capacity, forward.caps.max_pass, _LONGEST_MEASURED)
    sizes = [size for size in _MEASURED if size <= most]
    last = 1 << (most.bit_length() - 1)
    return [*sizes, last] if last > sizes[-1] else sizes
