"""The entry point of ``edgedec``: Ctrl-C ends it quietly from its first moment to its last.

Until the command line is imported, and after the command has ended, there is nothing to clean up: SIGINT then
ends the process at once. In between it raises KeyboardInterrupt, as everywhere. Before ``main`` has begun
Python itself answers, with a traceback: so this module and ``edgedec`` import nothing new to Python.
"""

import os
import sys

TYPE_CHECKING = False  # `typing` takes a while
if TYPE_CHECKING:
    import threading
    from types import FrameType

INTERRUPTED = 130
OUT_OF_MEMORY = 9
_SOON_S = 0.02


def main() -> None:
    """Run the command line of this process; never returns."""
    leave_at_once()
    sys.unraisablehook = _once_more
    try:
        from edgedec.cli.app import run
    except (MemoryError, ImportError, OSError) as error:
        if isinstance(error, MemoryError) or any(word in str(error) for word in MEMORY_WORDS):
            os.write(2, b"error: not enough memory to start\n")
            sys.exit(OUT_OF_MEMORY)
        raise
    run()


MEMORY_WORDS = ("failed to map segment", "annot allocate memory", "bad_alloc", "bad allocation", "new thread")
"""Parts of the messages of errors that say that memory ran out: of the loader, the system, C++ and Python."""


def leave_at_once() -> None:
    """End the process without a word at the next SIGINT, unless it is ignored or handled already.

    Nothing changes outside the main thread.
    """
    import _signal  # type: ignore[import-not-found]  # built in; ``signal`` has to import ``enum`` first

    try:
        if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
            _signal.signal(_signal.SIGINT, _leave)
    except ValueError:  # another thread
        return


def raise_again() -> bool:
    """Undo ``leave_at_once``: SIGINT raises KeyboardInterrupt. Return whether there was anything to undo."""
    import signal

    if signal.getsignal(signal.SIGINT) is not _leave:
        return False
    signal.signal(signal.SIGINT, signal.default_int_handler)
    return True


def _once_more(unraisable: "sys.UnraisableHookArgs") -> None:
    """Repeat a Ctrl-C that fell into a callback, of an import for example, where Python only prints it."""
    if unraisable.exc_type is not KeyboardInterrupt:
        sys.__unraisablehook__(unraisable)
        return
    import threading

    leaving = threading.Event()
    threading.Thread(target=_interrupt_soon, args=(leaving,)).start()
    leaving.set()  # last: a signal in here would only be printed, too


def _interrupt_soon(leaving: "threading.Event") -> None:
    import signal
    import time

    leaving.wait()
    time.sleep(_SOON_S)
    os.kill(os.getpid(), signal.SIGINT)


def _leave(number: int, frame: "FrameType | None") -> None:
    os._exit(INTERRUPTED)


if __name__ == "__main__":
    from edgedec.cli import main as module  # the one that others import, not a second copy of it

    module.main()
