"""How the process ends before the command line is imported, and after the command has ended.

The entry point needs this while nothing else of the command line is there: it imports nothing new to Python.
"""

import os

TYPE_CHECKING = False  # `typing` takes a while
if TYPE_CHECKING:
    from types import FrameType

INTERRUPTED = 130
OUT_OF_MEMORY = 9
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


def _leave(number: int, frame: "FrameType | None") -> None:
    os._exit(INTERRUPTED)
