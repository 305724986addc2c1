"""How the process starts, and how it ends before the command line is there and after the command has ended.

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


_LATE = 100_000
"""Objects from which Python looks for garbage as a command starts."""
_usual: tuple[int, ...] = ()
"""The numbers that it goes by otherwise; none where nobody changed them."""


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


def collect_late() -> None:
    """Let Python look for garbage when there are many more objects: imports make lasting ones."""
    import gc

    global _usual
    _usual = gc.get_threshold()
    gc.set_threshold(_LATE)


def collect_again() -> None:
    """Undo ``collect_late``, where it was called; what is there by now is not looked at again."""
    import gc

    global _usual
    if _usual:
        gc.freeze()
        gc.set_threshold(*_usual)
        _usual = ()


def import_numpy() -> None:
    """Import NumPy without threads for products of matrices, where the user asks for none.

    They take time to start and then wait; replies have no such products.
    """
    name = "OPENBLAS_NUM_THREADS"
    added = name not in os.environ
    os.environ.setdefault(name, "1")
    import numpy  # noqa: F401

    if added:  # programs that this one starts may have such products
        os.environ.pop(name, None)


def leave(status: object) -> None:
    """End the process with ``status`` now: to take the interpreter apart takes 20 ms, and does nothing.

    What was registered for the end is called, and what was written goes out. Return where something is left
    to do: threads to wait for, a word to say, output that cannot be written.
    """
    import atexit
    import sys
    import threading

    others = {one for one in threading.enumerate() if not one.daemon} - {threading.current_thread()}
    if others or not isinstance(status, int | None) or os.environ.get("EDGEDEC_DEBUG"):
        return
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):
        return
    os._exit(status or 0)


def raise_again() -> bool:
    """Undo ``leave_at_once``: SIGINT raises KeyboardInterrupt. Return whether there was anything to undo."""
    import signal

    if signal.getsignal(signal.SIGINT) is not _leave:
        return False
    signal.signal(signal.SIGINT, signal.default_int_handler)
    return True


def _leave(number: int, frame: "FrameType | None") -> None:
    os._exit(INTERRUPTED)
