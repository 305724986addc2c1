"""Ctrl-C while a reply runs: end it cleanly first, insist second."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Protocol


class Interruptible(Protocol):
    """A session, or several."""

    def interrupt(self) -> None: ...


@contextmanager
def interrupts_to(session: Interruptible) -> Iterator[None]:
    """While inside, Ctrl-C ends the reply between two passes; a second one raises KeyboardInterrupt."""

    def first(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        session.interrupt()

    before = signal.signal(signal.SIGINT, first)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
