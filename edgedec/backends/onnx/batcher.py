"""A rendezvous: conversations in threads of their own, whose passes become passes of all.

A pass is run as soon as every conversation that is in a reply has asked for something. All passes run in one
thread, which alone keeps the kernels' buffers.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Protocol

from edgedec.backends.onnx.sequences import Request
from edgedec.core.errors import BackendError
from edgedec.core.rows import HeadRows

_CLOSED = "the conversations were closed"
Observe = Callable[[Sequence[Request], float], None]


class Combined(Protocol):
    """What computes: see ``Places``."""

    most: int

    def check(self, request: Request) -> None: ...

    def run(self, requests: Sequence[Request]) -> list[HeadRows]: ...


class _Waiting:
    """A request, and what came of it."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.rows: HeadRows | None = None
        self.error: BaseException | None = None
        self.done = threading.Event()


class Batcher:
    """Runs ``submit``'s requests together. ``observe`` sees what was in every pass, and its seconds.

    A request that does not fit into a pass any more begins the next one, which waits for nobody: so the
    pieces of a long prompt take turns with everyone else. Use it as a context manager, or ``close`` it.
    """

    def __init__(
        self,
        combined: Combined,
        *,
        observe: Observe = lambda requests, seconds: None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._combined = combined
        self._observe = observe
        self._clock = clock
        self._changed = threading.Condition()
        """Only the thread that runs passes waits for it: to wake everybody at every request would take longer
        than a pass."""
        self._active: set[int] = set()
        self._queue: list[_Waiting] = []
        self._left_over = False
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="passes", daemon=True)
        self._thread.start()

    @contextmanager
    def reply(self, place: int) -> Iterator[None]:
        """While inside, no pass is run without a request of ``place``: there will be one soon.

        Raises ValueError when ``place`` is in a reply already.
        """
        with self._changed:
            if place in self._active:
                raise ValueError(f"place {place} is in a reply already")
            self._active.add(place)
        try:
            yield
        finally:
            with self._changed:
                self._active.discard(place)
                self._changed.notify()

    def submit(self, request: Request) -> HeadRows:
        """Wait for the pass that this request is in.

        Raises what ``Places.check`` does for it, before anyone else is concerned; what went wrong with the
        pass; BackendError after ``close``.
        """
        self._combined.check(request)
        waiting = _Waiting(request)
        with self._changed:
            if self._closed:
                raise BackendError(_CLOSED)
            self._queue.append(waiting)
            self._changed.notify()
        try:
            waiting.done.wait()
        except BaseException:  # Ctrl-C: it must be in no later pass
            with self._changed:
                taken = waiting not in self._queue
                self._queue = [other for other in self._queue if other is not waiting]
            if taken:
                waiting.done.wait()
            raise
        if waiting.error is not None:
            raise waiting.error
        assert waiting.rows is not None
        return waiting.rows

    def close(self) -> None:
        """End the thread, after the pass in progress; whoever waits gets a BackendError."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()
        with self._changed:
            for waiting in self._queue:
                waiting.error = BackendError(_CLOSED)
                waiting.done.set()
            self._queue = []

    def __enter__(self) -> Batcher:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or self._ready)
                if self._closed:
                    return
                taken = self._take()
            self._run(taken)
            for waiting in taken:
                waiting.done.set()

    @property
    def _ready(self) -> bool:
        if not self._queue:
            self._left_over = False
            return False
        return self._left_over or self._active <= {waiting.request.place for waiting in self._queue}

    def _take(self) -> list[_Waiting]:
        """From the front of the queue what fits into a pass; the first always does."""
        taken: list[_Waiting] = []
        rest: list[_Waiting] = []
        room = self._combined.most
        for waiting in self._queue:
            count = len(waiting.request.tokens)
            (taken if count <= room else rest).append(waiting)
            room -= count if count <= room else 0
        self._queue, self._left_over = rest, bool(rest)
        return taken

    def _run(self, taken: Sequence[_Waiting]) -> None:
        requests = [waiting.request for waiting in taken]
        began = self._clock()
        try:
            found = self._combined.run(requests)
            self._observe(requests, self._clock() - began)
        except BaseException as error:  # it is everyone's whose tokens were in the pass
            for waiting in taken:
                waiting.error = error
            return
        for waiting, rows in zip(taken, found, strict=True):
            waiting.rows = rows
