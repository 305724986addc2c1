"""The cores that this process may use, and the load on them, read from the operating system."""

from __future__ import annotations

import math
import os
from collections.abc import Collection
from pathlib import Path

from edgedec.core.errors import Remedy, UsageError
from edgedec.telemetry.system_text import GROUPS, OWN_GROUPS, groups, text_of


def usable_cores() -> int:
    """Count the logical cores that this process may use: its affinity, and at most its CPU quota.

    The quota is that of its control groups, which containers set; a part of a core counts as one.
    """
    allowed, quota = len(_allowed()), quota_cores()
    return allowed if quota is None else min(allowed, quota)


def physical_cores() -> int:
    """Count the usable cores; hyperthreads, which share bandwidth, count once."""
    return min(len({_siblings(cpu) for cpu in _allowed()}), usable_cores())


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


def load_average() -> float | None:
    """Return the processes that ran or waited for a core in the last minute, on average; None if unknown."""
    try:
        return os.getloadavg()[0]
    except (AttributeError, OSError):
        return None


def quota_cores(own: str | None = None, root: Path = GROUPS) -> int | None:
    """Return the cores that the CPU quota of this process is worth, rounded up; None without a quota.

    The groups above its own count too. ``own`` and ``root``: see ``system_text.groups``.
    """
    told = text_of(OWN_GROUPS) if own is None else own
    found = [_quota_v2(group) if second else _quota_v1(group) for group, second in groups("cpu", told, root)]
    return min((math.ceil(quota) for quota in found if quota), default=None)


def _allowed() -> Collection[int]:
    """Return the numbers of the logical cores that this process may run on; all without an affinity."""
    affinity = getattr(os, "sched_getaffinity", None)
    return (affinity(0) if affinity else None) or range(os.cpu_count() or 1)


def _quota_v2(group: Path) -> float | None:
    quota, period = (*text_of(group / "cpu.max").split(), "", "")[:2]
    return _share(quota, period)


def _quota_v1(group: Path) -> float | None:
    return _share(text_of(group / "cpu.cfs_quota_us"), text_of(group / "cpu.cfs_period_us"))


def _share(quota: str, period: str) -> float | None:
    """Return quota / period, both in microseconds; None for "max", -1 and other words for no quota."""
    quota, period = quota.strip(), period.strip()
    if not (quota.isdigit() and period.isdigit() and int(quota) and int(period)):
        return None
    return int(quota) / int(period)


def _siblings(cpu: int) -> str:
    path = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
    return text_of(path).strip() or str(cpu)
