"""Age and memory of this process, read from the operating system.

The module needs nothing but the standard library: ``bench.harness.serve`` loads it in other interpreters.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import NamedTuple

_IMPORTED = time.monotonic()


def age_s() -> float:
    """Return the seconds since this process was created.

    On Linux from field 22 of ``/proc/self/stat``: the start time in clock ticks after boot, see
    proc_pid_stat(5). So the interpreter's own start is included, with a resolution of 10 ms. Elsewhere, and
    if that file cannot be read, the seconds since this module was imported.
    """
    since_import = time.monotonic() - _IMPORTED
    if sys.platform != "linux":
        return since_import
    try:
        stat = Path("/proc/self/stat").read_text(encoding="ascii", errors="replace")
        uptime_s = time.clock_gettime(time.CLOCK_BOOTTIME)
        return max(since_import, _age_from_stat(stat, uptime_s, os.sysconf("SC_CLK_TCK")))
    except (OSError, ValueError, IndexError):
        return since_import


def _age_from_stat(stat: str, uptime_s: float, ticks_per_s: int) -> float:
    # The second field is the program's name in parentheses and may itself hold spaces and parentheses.
    fields = stat.rpartition(")")[2].split()
    return uptime_s - int(fields[22 - 3]) / ticks_per_s


def rss_bytes() -> int:
    """Return the physical memory that this process holds now, mapped files included; 0 if unknown."""
    return status_bytes("VmRSS")


def mapped_rss_bytes(name: str) -> int:
    """Return the part of ``rss_bytes`` in pages of files called ``name``; 0 if unknown."""
    inside, total = False, 0
    for line in _text("smaps").splitlines():
        if line.startswith("Rss:"):
            total += int(line.split()[1]) * 1024 if inside else 0
        elif not line.split(maxsplit=1)[0].endswith(":"):  # the next mapping
            inside = line.endswith("/" + name)
    return total


def mapped_bytes(file: Path) -> int:
    """Return the bytes of the pages into which ``file`` is mapped; 0 if unknown.

    They are more than its size if it is mapped in pieces.
    """
    return sum(one.nbytes for one in mappings(file))


class Mapping(NamedTuple):
    """Addresses from ``start`` to ``end`` that have a file's bytes from ``offset`` on; whether they are
    ``private``: what is written there is this process's own.
    """

    start: int
    end: int
    offset: int
    private: bool

    @property
    def nbytes(self) -> int:
        return self.end - self.start


def mappings(file: Path) -> list[Mapping]:
    """Return where ``file`` is mapped; nothing if that is unknown."""
    found, ending, maps = [], f" {file.resolve()}", _text("maps")
    for line in maps.splitlines() if ending in maps else ():
        if line.endswith(ending):
            span, access, offset = line.split(maxsplit=3)[:3]
            start, end = span.split("-")
            found.append(Mapping(int(start, 16), int(end, 16), int(offset, 16), access == "rw-p"))
    return found


def peak_rss_bytes() -> int:
    """Return the most physical memory that this process has held, mapped weights included; 0 if unknown."""
    # Linux passes ru_maxrss on from the parent through fork and exec; VmHWM counts this program alone.
    if peak := status_bytes("VmHWM"):
        return peak
    try:
        import resource
    except ImportError:  # not a Unix
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024  # macOS counts bytes, others KiB


def status_bytes(name: str, process: int | None = None) -> int:
    """Read a number of bytes from Linux's /proc/PID/status, of this process by default; 0 elsewhere."""
    for line in _text("status", process).splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1]) * 1024
    return 0


def _text(name: str, process: int | None = None) -> str:
    """Return a file of Linux's /proc/PID, of this process by default; nothing elsewhere."""
    try:
        return Path("/proc", str(process or "self"), name).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
