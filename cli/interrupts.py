"""Ctrl-C and requests to end while a command runs: end a reply cleanly first, insist second."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from edgedec.system.process import TERMINATIONS

_terminated = False


@contextmanager
def interrupts_to(interrupt: Callable[[], None]) -> Iterator[None]:
    """Inside, Ctrl-C calls ``interrupt``, which ends the work in order; a second raises KeyboardInterrupt."""

    def first(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        interrupt()

    before = signal.signal(signal.SIGINT, first)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def terminations_interrupt() -> Iterator[None]:
    """Inside, SIGTERM acts as Ctrl-C does, and ``terminated`` says so.

    Where Ctrl-C would have let the command go on, KeyboardInterrupt is raised at the end.
    Nothing changes outside the main thread, and where the signal is ignored or handled already.
    """
    global _terminated
    _terminated = False
    in_main = threading.current_thread() is threading.main_thread()
    if not in_main or any(signal.getsignal(one) is not signal.SIG_DFL for one in TERMINATIONS):
        yield
        return
    for one in TERMINATIONS:
        signal.signal(one, _interrupt)
    try:
        yield
        if _terminated:
            raise KeyboardInterrupt
    finally:
        for one in TERMINATIONS:
            signal.signal(one, signal.SIG_DFL)


def terminated() -> bool:
    """Whether SIGTERM has come since the command began. A loop that goes on after Ctrl-C must end then."""
    return _terminated


def _interrupt(number: int, frame: FrameType | None) -> None:
    global _terminated
    _terminated = True
    handler = signal.getsignal(signal.SIGINT)
    if callable(handler):
        handler(signal.SIGINT, frame)
    else:
        raise KeyboardInterrupt
