"""Waits with a limit for calls that have none."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable


class Waiter:
    """Calls functions in a thread of its own. Make no further call after one that did not return."""

    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[Callable[[], object] | None] = queue.SimpleQueue()
        self._ends: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def done(self, call: Callable[[], object], seconds: float) -> bool:
        """Return whether ``call`` returned within ``seconds``. Raises what it raised."""
        if self._thread is None:
            # A daemon: a wait that never ends must not keep the process.
            self._thread = threading.Thread(target=self._work, name="edgedec-gpu", daemon=True)
            self._thread.start()
        self._calls.put(call)
        try:
            error = self._ends.get(timeout=seconds)
        except queue.Empty:
            return False
        if error is not None:
            raise error
        return True

    def close(self) -> None:
        """End the thread when its call has returned."""
        self._calls.put(None)

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            try:
                call()
            except BaseException as error:
                self._ends.put(error)
            else:
                self._ends.put(None)
