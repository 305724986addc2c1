"""Memory by macOS's count: the physical footprint, in which clean pages of mapped files are not. In bytes.

Its Activity Monitor shows the same number. psutil does not tell it.
"""

from __future__ import annotations

import ctypes
import os

COUNTED = "physical footprint, without mapped files"
"""The number by which the memory of a process is counted."""
_USAGE_V4 = 4
_FIELDS = 35
"""64-bit numbers of ``rusage_info_v4`` behind the 16 bytes of its UUID (sys/resource.h)."""
_FOOTPRINT, _MOST_FOOTPRINT = 7, 28
"""Those of ``ri_phys_footprint`` and ``ri_lifetime_max_phys_footprint``."""


class _Usage(ctypes.Structure):
    _fields_ = (("uuid", ctypes.c_uint8 * 16), ("numbers", ctypes.c_uint64 * _FIELDS))


def rss_bytes() -> int:
    """Return the physical footprint of this process; 0 if unknown."""
    return _usage(_FOOTPRINT)


def peak_rss_bytes() -> int:
    """Return the largest footprint that this process has had; 0 if unknown."""
    return _usage(_MOST_FOOTPRINT)


def mapped_rss_bytes(name: str) -> int:
    """Return 0: a footprint has no clean pages of mapped files."""
    return 0


def parts_of(process: int | None) -> tuple[int, int]:
    """Return the memory of a process, by default this one, in mapped files and of its own; 0 if unknown."""
    import psutil

    resident, own = int(psutil.Process(process).memory_info().rss), _usage(_FOOTPRINT, process)
    return max(resident - own, 0), own


def _usage(number: int, process: int | None = None) -> int:
    """Return a number of ``proc_pid_rusage``; 0 where the call fails."""
    usage = _Usage()
    call = ctypes.CDLL(None).proc_pid_rusage
    failed = call(ctypes.c_int(process or os.getpid()), ctypes.c_int(_USAGE_V4), ctypes.byref(usage))
    return 0 if failed else int(usage.numbers[number])
