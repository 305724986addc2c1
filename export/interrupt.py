"""Turns signals that ask the process to end into an exception, so that they clean up as Ctrl-C does."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from edgedec.system.process import HANGUPS, TERMINATIONS


@contextmanager
def terminations_raise() -> Iterator[None]:
    """Make termination signals raise SystemExit(128 + signal) inside the block.

    Outside the main thread, and for signals that the program already handles, nothing changes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    ours = [number for number in (*TERMINATIONS, *HANGUPS) if signal.getsignal(number) is signal.SIG_DFL]
    for number in ours:
        signal.signal(number, _raise)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)


def _raise(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)
