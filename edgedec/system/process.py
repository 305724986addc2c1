"""Processes: their ages, how they are asked to end and what ended them; this one's terminal."""

from __future__ import annotations

import sys
import time

if sys.platform == "win32":
    from edgedec.system.windows_endings import (
        HANGUPS,
        TERMINATIONS,
        ask_to_end,
        ended_by,
        interrupt,
        own_group,
        terminate,
        was_killed,
    )
    from edgedec.system.windows_terminal import PIPED, obeys_sequences, unseen
else:
    from edgedec.system.posix import (
        HANGUPS,
        PIPED,
        TERMINATIONS,
        ask_to_end,
        ended_by,
        interrupt,
        obeys_sequences,
        own_group,
        terminate,
        unseen,
        was_killed,
    )

__all__ = [
    "HANGUPS",
    "PIPED",
    "TERMINATIONS",
    "age_s",
    "ask_to_end",
    "asleep_s",
    "ended_by",
    "interrupt",
    "obeys_sequences",
    "own_group",
    "terminate",
    "unseen",
    "was_killed",
]
_IMPORTED = time.monotonic()


def age_s() -> float:
    """Return the seconds since this process was created.

    On Linux from field 22 of its ``stat``: the start time in clock ticks after boot, see proc_pid_stat(5). So
    the interpreter's own start is included, with a resolution of 10 ms. Elsewhere, and if that file cannot be
    read, the seconds since this module was imported.
    """
    since_import = time.monotonic() - _IMPORTED
    if sys.platform != "linux":
        return since_import
    import os

    from edgedec.system.linux_texts import PROCESSES

    try:
        stat = (PROCESSES / "self" / "stat").read_text(encoding="ascii", errors="replace")
        uptime_s = time.clock_gettime(time.CLOCK_BOOTTIME)
        return max(since_import, _age_from_stat(stat, uptime_s, os.sysconf("SC_CLK_TCK")))
    except (OSError, ValueError, IndexError):
        return since_import


def _age_from_stat(stat: str, uptime_s: float, ticks_per_s: int) -> float:
    # The second field is the program's name in parentheses and may itself hold spaces and parentheses.
    fields = stat.rpartition(")")[2].split()
    return uptime_s - int(fields[22 - 3]) / ticks_per_s


def asleep_s() -> float:
    """Return the seconds that the machine has been suspended since it started; 0 where it is not told."""
    if sys.platform == "linux":
        return time.clock_gettime(time.CLOCK_BOOTTIME) - time.clock_gettime(time.CLOCK_MONOTONIC)
    if sys.platform == "darwin":
        return time.clock_gettime(time.CLOCK_MONOTONIC_RAW) - time.clock_gettime(time.CLOCK_UPTIME_RAW)
    if sys.platform == "win32":
        from edgedec.system.windows_power import asleep_s as of_windows

        return of_windows()
    return 0.0
