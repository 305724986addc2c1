"""The entry point of ``edgedec``: Ctrl-C ends it quietly from its first moment to its last.

Until the command line is imported, and after the command has ended, there is nothing to clean up: SIGINT then
ends the process at once. In between it raises KeyboardInterrupt, as everywhere. Before ``main`` has begun
Python itself answers, with a traceback: so this module, ``early`` and ``edgedec`` import nothing that is new
to Python.
"""

import os
import sys

from edgedec.cli.early import MEMORY_WORDS, OUT_OF_MEMORY, collect_late, leave, leave_at_once

TYPE_CHECKING = False  # `typing` takes a while
if TYPE_CHECKING:
    import threading

_SOON_S = 0.02


def main() -> None:
    """Run the command line of this process; never returns."""
    leave_at_once()
    collect_late()
    sys.unraisablehook = _once_more
    try:
        from edgedec.cli.app import run
    except (MemoryError, ImportError, OSError) as error:
        if isinstance(error, MemoryError) or any(word in str(error) for word in MEMORY_WORDS):
            os.write(2, b"error: not enough memory to start\n")
            sys.exit(OUT_OF_MEMORY)
        raise
    try:
        run()
    except SystemExit as end:
        leave(end.code)
        raise


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
    import time

    from edgedec.system.process import interrupt

    leaving.wait()
    time.sleep(_SOON_S)
    interrupt()


if __name__ == "__main__":
    main()
