"""The clock of a conversation in a batch, by which its drafts are charged."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager


class ConversationClock:
    """Seconds of a conversation's own work: those of its thread, and its share of passes made with others.

    Waiting for others costs nothing. Only differences have a meaning, between two calls of one thread.
    """

    def __init__(self) -> None:
        self._beside = 0.0
        """Seconds charged, less those of the thread that do not count."""

    def __call__(self) -> float:
        return time.thread_time() + self._beside

    def charge(self, seconds: float) -> None:
        """Add a share of a pass."""
        self._beside += seconds

    @contextmanager
    def sharing(self) -> Iterator[None]:
        """Count none of the thread's own time inside: what is charged meanwhile stands for it."""
        began = time.thread_time()
        try:
            yield
        finally:
            self._beside -= time.thread_time() - began
