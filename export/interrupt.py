"""SIGTERM and SIGHUP as an exception, so that cleaning up runs as it does for Ctrl-C."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def terminations_raise() -> Iterator[None]:
    """Inside the block a termination signal raises SystemExit(128 + signal). Only the main thread can do
    this; elsewhere, and for signals that the program handles itself, nothing changes."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    names = ("SIGTERM", "SIGHUP")
    wanted = [getattr(signal, name) for name in names if hasattr(signal, name)]
    ours = [number for number in wanted if signal.getsignal(number) is signal.SIG_DFL]
    for number in ours:
        signal.signal(number, _raise)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)


def _raise(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)
