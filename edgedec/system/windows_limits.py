"""Limits that a process sets for itself on Windows: a job object's of memory, a watchdog's of time.

The watchdog is one thread of C in Python, which ends the process even while a library holds Python. It counts
time by the clock, so what takes processor time has more of it.
"""

from __future__ import annotations

import ctypes
import faulthandler
import sys
from collections.abc import Callable
from functools import cache

LIMITS_MEMORY = True
"""Whether a process can be kept from taking more memory."""
TIME_UP, IDLE, MEMORY_UP = 1, 1, 0xC0000409
"""Exit statuses of a process that ``end_after`` ended, ``end_when_idle``, and a library out of memory.

The last one is fail-fast, by which Rust aborts.
"""
_BUSY = 8.0
"""Seconds by the clock for one of processor time: a machine with other work refuses nothing good."""
_LIMITS = 9
"""JobObjectExtendedLimitInformation of ``SetInformationJobObject`` (winnt.h)."""
_PROCESS_MEMORY = 0x100
"""JOB_OBJECT_LIMIT_PROCESS_MEMORY."""


class Counters(ctypes.Structure):
    """PROCESS_MEMORY_COUNTERS."""

    _fields_ = (
        ("size", ctypes.c_uint32),
        ("faults", ctypes.c_uint32),
        ("other", ctypes.c_size_t * 6),
        ("committed", ctypes.c_size_t),
        ("most_committed", ctypes.c_size_t),
    )


class JobLimits(ctypes.Structure):
    """JOBOBJECT_EXTENDED_LIMIT_INFORMATION."""

    _fields_ = (
        ("times", ctypes.c_int64 * 2),
        ("flags", ctypes.c_uint32),
        ("working_sets", ctypes.c_size_t * 2),
        ("processes", ctypes.c_uint32),
        ("affinity", ctypes.c_size_t),
        ("classes", ctypes.c_uint32 * 2),
        ("transfers", ctypes.c_uint64 * 6),
        ("process_bytes", ctypes.c_size_t),
        ("job_bytes", ctypes.c_size_t),
        ("peaks", ctypes.c_size_t * 2),
    )


def address_space() -> int | None:
    """Return the bytes that the system has promised this process (its commit charge), which are limited."""
    calls, found = ctypes.CDLL("kernel32"), Counters(size=ctypes.sizeof(Counters))
    calls.GetCurrentProcess.restype = ctypes.c_void_p
    process = ctypes.c_void_p(calls.GetCurrentProcess())
    if not calls.K32GetProcessMemoryInfo(process, ctypes.byref(found), found.size):
        raise OSError("Windows does not tell the memory of this process")
    return int(found.committed)


def limit_address_space(nbytes: int) -> None:
    """Let the process have ``nbytes`` promised at most.

    Raises OSError where the system sets no such limit, or does not state it when it is asked again.
    """
    calls, size = ctypes.CDLL("kernel32"), ctypes.c_uint32(ctypes.sizeof(JobLimits))
    asked, told = JobLimits(flags=_PROCESS_MEMORY, process_bytes=nbytes), JobLimits()
    job = _own_job()
    kept = calls.SetInformationJobObject(job, _LIMITS, ctypes.byref(asked), size)
    kept = kept and calls.QueryInformationJobObject(job, _LIMITS, ctypes.byref(told), size, None)
    if not (kept and told.flags & _PROCESS_MEMORY and 0 < told.process_bytes <= nbytes):
        raise OSError("Windows does not limit the memory of this process")


@cache
def _own_job() -> ctypes.c_void_p:
    """Put this process into a job object of its own, which lasts as long as it does."""
    calls = ctypes.CDLL("kernel32")
    calls.CreateJobObjectW.restype = calls.GetCurrentProcess.restype = ctypes.c_void_p
    job, process = ctypes.c_void_p(calls.CreateJobObjectW(None, None)), calls.GetCurrentProcess()
    if not (job and calls.AssignProcessToJobObject(job, ctypes.c_void_p(process))):
        raise OSError("Windows puts this process into no job object")
    return job


def leave_no_core() -> None:
    """Write no file when the process crashes, which Windows does for no process that is not asked to."""


def dump_at_the_end() -> None:
    """Write the stack to standard output before the process ends by a crash or by ``end_after``."""
    faulthandler.enable(sys.stdout)


def on_interruption(stop: Callable[[], None]) -> None:
    """Do nothing: Windows interrupts no work, and ``interrupt_after`` ends the process."""


def interrupt_after(seconds: float) -> None:
    """End the process after so much processor time from now; 0: never."""
    end_after(seconds)


def end_after(seconds: float) -> None:
    """End the process after so much processor time from now; 0: never."""
    end_when_idle(seconds * _BUSY)


def end_when_idle(seconds: float) -> None:
    """End the process after so much time from now; 0: never."""
    if seconds:
        faulthandler.dump_traceback_later(seconds, exit=True, file=sys.stdout)
    else:
        faulthandler.cancel_dump_traceback_later()
