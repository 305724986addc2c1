"""How processes end on Windows: by events of the console, and by exit statuses that name a fault."""

from __future__ import annotations

import _thread
import signal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import subprocess

_BREAK: signal.Signals = getattr(signal, "SIGBREAK", signal.SIGTERM)
"""Ctrl-Break, a console that is closed, a user who logs off, and a shutdown."""
TERMINATIONS = tuple(dict.fromkeys((signal.SIGTERM, _BREAK)))
"""Signals by which the system, or another program, asks this one to end."""
HANGUPS: tuple[signal.Signals, ...] = ()
"""Signals that say that the terminal has gone."""
_NEW_GROUP = 0x200
"""CREATE_NEW_PROCESS_GROUP of ``CreateProcess``."""
_FAULTS = {
    0xC0000005: "access violation",
    0xC0000017: "no memory",
    0xC000001D: "illegal instruction",
    0xC0000094: "division by zero",
    0xC00000FD: "stack overflow",
    0xC000012D: "no memory",
    0xC000013A: "Ctrl-C",
    0xC0000409: "fail-fast",
}
"""Exit statuses of processes that ended by a fault (ntstatus.h)."""
_FIRST_FAULT = 0xC0000000


def interrupt() -> None:
    """Interrupt this process as Ctrl-C does."""
    _thread.interrupt_main(signal.SIGINT)


def terminate() -> None:
    """Ask this process to end. ``os.kill`` would end it at once."""
    _thread.interrupt_main(signal.SIGTERM)


def own_group() -> dict[str, Any]:
    """Return arguments of ``Popen`` for a process that Ctrl-C of this console does not reach."""
    return {"creationflags": _NEW_GROUP}


def ask_to_end(process: subprocess.Popen[bytes]) -> None:
    """Ask a process that this one started to clean up and end: its standard input ends.

    ``terminate`` would end it at once.
    """
    if process.stdin is None:
        process.terminate()
    else:
        process.stdin.close()


def ended_by(status: int) -> str | None:
    """Return what ended a process, such as "stack overflow"; None where it ended itself."""
    found = status & 0xFFFFFFFF
    return _FAULTS.get(found, f"fault {found:#x}") if found >= _FIRST_FAULT else None


def was_killed(status: int) -> bool:
    """Return whether the system ended a process because memory ran out."""
    return ended_by(status) == "no memory"
