"""The processor time that other programs take while something is measured."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from edgedec.system.cores import busy_s

_MOST = 0.95


def _own_s() -> float:
    """Return the processor time of this process and of its children that have ended."""
    return sum(os.times()[:4])


class OtherLoad:
    """Other programs' use of the usable cores from now on. Children of this process that end are its own."""

    def __init__(
        self, busy: Callable[[], float | None] = busy_s, own: Callable[[], float] = _own_s,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        """``busy``: the seconds that the cores were busy since the start."""
        self._now, self._own, self._clock = busy, own, clock
        self._busy, self._mine, self._began = busy(), own(), clock()

    def share(self, cores: int) -> float | None:
        """Return the share of all time of ``cores``, 0 to 1, that others took; None where it is not known."""
        busy, seconds = self._now(), self._clock() - self._began
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
