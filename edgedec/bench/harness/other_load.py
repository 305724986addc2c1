"""The processor time that other programs take while something is measured (Linux)."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

_BUSY = (0, 1, 2, 5, 6, 7)
"""Fields of a line of /proc/stat: user, nice, system, irq, softirq, steal (proc(5))."""
_MOST = 0.95


def _busy_s(stat: Path) -> float | None:
    """Return the seconds that the usable cores were busy since the start; None where it is not known."""
    with suppress(OSError, ValueError, AttributeError, IndexError):
        lines = (line.split() for line in stat.read_text(encoding="ascii").splitlines())
        cores = {f"cpu{number}" for number in os.sched_getaffinity(0)}
        fields = [[int(one) for one in rest] for name, *rest in lines if name in cores]
        return sum(core[field] for core in fields for field in _BUSY) / os.sysconf("SC_CLK_TCK") or None
    return None


def _own_s() -> float:
    """Return the processor time of this process and of its children that have ended."""
    return sum(os.times()[:4])


class OtherLoad:
    """Other programs' use of the usable cores from now on. Children of this process that end are its own."""

    def __init__(
        self, stat: Path = Path("/proc/stat"), own: Callable[[], float] = _own_s,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self._stat, self._own, self._clock = stat, own, clock
        self._busy, self._mine, self._began = _busy_s(stat), own(), clock()

    def share(self, cores: int) -> float | None:
        """Return the share of all time of ``cores``, 0 to 1, that others took; None where it is not known."""
        busy, seconds = _busy_s(self._stat), self._clock() - self._began
        if busy is None or self._busy is None or seconds <= 0.0:
            return None
        others = busy - self._busy - (self._own() - self._mine)
        return min(max(others / (seconds * cores), 0.0), 1.0)


def slowdown(share: float | None, cores: int) -> float:
    """Return the most by which others that took ``share`` of the cores slowed down threads on all of them.

    With n others that always run, fair sharing gives these a share of n / (n + cores). Threads that wait for
    each other are as slow as the one that shares its core with all n.
    """
    if not share:
        return 1.0
    share = min(share, _MOST)
    return 1.0 + cores * share / (1.0 - share)
