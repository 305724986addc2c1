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

from edgedec.backends.places import Request
from edgedec.core.errors import BackendError
from edgedec.core.types import HeadRows

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
        self.done = False


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
                self._changed.notify_all()

    def submit(self, request: Request) -> HeadRows:
        """Wait for the pass that this request is in.

        Raises what ``Places.check`` does for it, before anyone else is concerned; what went wrong with the
        pass; BackendError after ``close``.
        """
        self._combined.check(request)
        waiting = _Waiting(request)
        with self._changed:
            self._queue.append(waiting)
            self._changed.notify_all()
            try:
                self._changed.wait_for(lambda: waiting.done or (self._closed and waiting in self._queue))
            finally:
                self._withdraw(waiting)
        if waiting.error is not None:
            raise waiting.error
        if waiting.rows is None:
            raise BackendError("the conversations were closed")
        return waiting.rows

    def _withdraw(self, waiting: _Waiting) -> None:
        """Nobody waits for it any more: it is in no later pass, and a pass that has it is waited for."""
        if waiting in self._queue:
            self._queue.remove(waiting)
            self._left_over = self._left_over and bool(self._queue)
        else:
            self._changed.wait_for(lambda: waiting.done)

    def close(self) -> None:
        """End the thread, after the pass in progress; whoever waits gets a BackendError."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join()

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
            with self._changed:
                for waiting in taken:
                    waiting.done = True
                self._changed.notify_all()

    @property
    def _ready(self) -> bool:
        if not self._queue:
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
