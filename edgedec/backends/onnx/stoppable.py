"""Passes that Ctrl-C ends although they wait for a disk."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")


class Stoppable:
    """Computes what the main thread asks for in a thread beside it: Python sees signals between calls only.

    An exception that ends the wait for it, as of Ctrl-C, ends the computation, too: ``interrupt(True)`` has
    to make it end soon, and ``interrupt(False)`` follows once it has.
    """

    def __init__(self, interrupt: Callable[[bool], None]) -> None:
        self._interrupt = interrupt
        self._beside = ThreadPoolExecutor(1, thread_name_prefix="passes from disk")

    def __call__(self, compute: Callable[[], T]) -> T:
        if threading.current_thread() is not threading.main_thread():
            return compute()
        future = self._beside.submit(compute)
        try:
            return future.result()
        except BaseException:
            if not future.done():
                self._end(future)
            raise

    def _end(self, future: Future[T]) -> None:
        self._interrupt(True)
        try:
            while not future.done():
                with suppress(BaseException):  # another Ctrl-C: memory of the pass is in use until it ends
                    future.exception()
        finally:
            self._interrupt(False)
