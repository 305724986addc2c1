"""The logical cores of this process on macOS and Windows, and the load on them, as psutil tells them."""

from __future__ import annotations

import os
from collections.abc import Collection


def allowed() -> Collection[int]:
    """Return the numbers of the logical cores that this process may run on; all without an affinity."""
    import psutil

    affinity = getattr(psutil.Process(), "cpu_affinity", None)  # macOS has none
    return (affinity() if affinity else None) or range(os.cpu_count() or 1)


def physical() -> int:
    """Count the cores that it may run on; hyperthreads count once."""
    import psutil

    here = len(allowed())
    return min(psutil.cpu_count(logical=False) or here, here)


def quota_cores() -> int | None:
    """Return None: these systems give processes no part of a core."""
    return None


def load_average() -> float | None:
    """Return the processes that ran or waited for a core in the last minute, on average; None if unknown.

    Windows counts none; psutil would start to count at the first call.
    """
    average = getattr(os, "getloadavg", None)
    try:
        return float(average()[0]) if average else None
    except OSError:
        return None


def busy_s() -> float | None:
    """Return the seconds that all cores were busy since the start."""
    import psutil

    times = psutil.cpu_times()
    return float(times.user + times.system + getattr(times, "nice", 0.0)) or None
