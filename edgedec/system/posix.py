"""Calls that POSIX systems share: locks, ends of processes, limits (of memory on Linux alone), terminals."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

assert sys.platform != "win32"
import fcntl  # noqa: E402 - type checkers read no further for Windows
import signal  # noqa: E402

if TYPE_CHECKING:
    import subprocess

LOCKS_FOLDERS = True
"""Whether a folder can be opened and locked."""
TERMINATIONS = (signal.SIGTERM,)
"""Signals by which the system, or another program, asks this one to end."""
HANGUPS = (signal.SIGHUP,)
"""Signals that say that the terminal has gone."""
LIMITS_MEMORY = sys.platform == "linux"
"""Whether a process can be kept from taking more memory."""
TIME_UP, IDLE, MEMORY_UP = -signal.SIGPROF, -signal.SIGALRM, -signal.SIGABRT
"""Exit statuses of a process that ``end_after`` ended, ``end_when_idle``, and a library out of memory."""
PIPED: str | None = None
"""The encoding of streams that are no terminal; None: as the user has set it."""


def lock(descriptor: int, *, share: bool = False, wait: bool = False) -> bool:
    """Lock an open file or folder, alone or as one of many; return whether nobody else holds it.

    ``wait``: until that is so. Raises OSError on a file system without such locks.
    """
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if share else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    return True


def interrupt() -> None:
    """Interrupt this process as Ctrl-C does."""
    os.kill(os.getpid(), signal.SIGINT)


def terminate() -> None:
    """Ask this process to end."""
    os.kill(os.getpid(), signal.SIGTERM)


def own_group() -> dict[str, Any]:
    """Return arguments of ``Popen`` for a process that Ctrl-C of this terminal does not reach."""
    return {"start_new_session": True}


def ask_to_end(process: subprocess.Popen[bytes]) -> None:
    """Ask a process that this one started to clean up and end."""
    process.terminate()


def ended_by(status: int) -> str | None:
    """Return what ended a process, such as SIGSEGV, by its exit status; None where it ended itself."""
    if status >= 0:
        return None
    try:
        return signal.Signals(-status).name
    except ValueError:
        return f"signal {-status}"


def was_killed(status: int) -> bool:
    """Return whether the system ended a process at once, as it does where memory runs out."""
    return status == -signal.SIGKILL


def address_space() -> int | None:
    """Return the bytes of address space in use; None on systems that do not limit it (all but Linux)."""
    if not LIMITS_MEMORY:
        return None
    import resource

    from edgedec.system.linux_texts import PROCESSES

    with open(PROCESSES / "self" / "statm", encoding="ascii") as file:
        return int(file.read().split()[0]) * resource.getpagesize()


def limit_address_space(nbytes: int) -> None:
    """Let the process take ``nbytes`` of address space at most."""
    import resource

    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    with suppress(ValueError):  # the system's own limit is lower, and holds
        resource.setrlimit(resource.RLIMIT_AS, (nbytes, hard))


def leave_no_core() -> None:
    """Write no file when the process crashes."""
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


def dump_at_the_end() -> None:
    """Write the stack to standard output before the process ends by a crash or by ``end_after``."""
    import faulthandler

    faulthandler.enable(sys.stdout)
    faulthandler.register(signal.SIGPROF, sys.stdout, all_threads=False, chain=True)  # then the default: end


def on_interruption(stop: Callable[[], None]) -> None:
    """Let ``interrupt_after`` call ``stop``, which may raise, wherever the main thread is."""
    signal.signal(signal.SIGVTALRM, lambda number, frame: stop())


def interrupt_after(seconds: float) -> None:
    """Interrupt Python after so much processor time from now; 0: never."""
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)


def end_after(seconds: float) -> None:
    """End the process after so much processor time from now; 0: never."""
    signal.setitimer(signal.ITIMER_PROF, seconds)


def end_when_idle(seconds: float) -> None:
    """End the process after so much time from now; 0: never."""
    signal.setitimer(signal.ITIMER_REAL, seconds)


def obeys_sequences() -> bool:
    """Return whether the terminal moves its cursor and changes colours as it is told in the text."""
    return True


@contextmanager
def unseen() -> Iterator[None]:
    """Inside, the terminal does not echo, and Ctrl-C drops no keys. Does nothing where that cannot be set."""
    import termios  # takes a while

    try:
        terminal = sys.stdin.fileno()
        before = termios.tcgetattr(terminal)
    except (OSError, ValueError, termios.error):
        yield
        return
    quiet = [*before]
    quiet[3] = quiet[3] & ~termios.ECHO | termios.NOFLSH
    termios.tcsetattr(terminal, termios.TCSANOW, quiet)
    try:
        yield
    finally:
        termios.tcsetattr(terminal, termios.TCSANOW, before)
