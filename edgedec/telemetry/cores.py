"""The cores that this process may use, and the load on them."""

from __future__ import annotations

from edgedec.core.errors import Remedy, UsageError
from edgedec.system.cores import allowed, load_average, physical, quota_cores

__all__ = ["check_usable", "load_average", "physical_cores", "usable_cores"]


def usable_cores() -> int:
    """Count the logical cores that this process may use: its affinity, and at most its CPU quota.

    The quota is that of its control groups, which containers set; a part of a core counts as one.
    """
    here, quota = len(allowed()), quota_cores()
    return here if quota is None else min(here, quota)


def physical_cores() -> int:
    """Count the usable cores; hyperthreads, which share bandwidth, count once."""
    return min(physical(), usable_cores())


def check_usable(threads: int | None) -> None:
    """Raise UsageError for fewer threads than one, and for more than the cores that this process may use.

    More threads than cores wait for each other in every pass.
    """
    most = usable_cores()
    if threads is not None and not 1 <= threads <= most:
        usable = "1 core" if most == 1 else f"{most} cores"
        raise UsageError(
            f"{threads} threads are not possible: this process may use {usable}",
            hint=f"use 1 to {most}" if most > 1 else "use 1",
            remedy=Remedy("threads", most),
        )
