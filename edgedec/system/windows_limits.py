"""Limits that a process sets for itself on Windows: of time, by Python's own watchdog; of memory none.

The watchdog is one thread of C, which ends the process even while a library holds Python. It counts time by
the clock, so what takes processor time has more of it.
"""

from __future__ import annotations

import faulthandler
import sys
from collections.abc import Callable

LIMITS_MEMORY = False
"""Whether a process can be kept from taking more memory."""
TIME_UP, IDLE, MEMORY_UP = 1, 1, 3
"""Exit statuses of a process that ``end_after`` ended, ``end_when_idle``, and a library out of memory."""
_BUSY = 8.0
"""Seconds by the clock for one of processor time: a machine with other work refuses nothing good."""


def address_space() -> int | None:
    """Return None: Windows limits no address space."""
    return None


def limit_address_space(nbytes: int) -> None:
    """Raises OSError: see ``LIMITS_MEMORY``."""
    raise OSError("Windows limits no address space")


def leave_no_core() -> None:
    """Write no file when the process crashes, which Windows does for no process that is not asked to."""


def dump_at_the_end() -> None:
    """Write the stack to standard output before the process ends by a crash or by ``end_after``."""
    faulthandler.enable(sys.stdout)


def on_interruption(stop: Callable[[], None]) -> None:
    """Raises OSError: Windows interrupts no work, which ``end_after`` ends."""
    raise OSError("Windows interrupts no work")


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
