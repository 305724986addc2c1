"""A rendezvous: sequences in threads of their own, whose passes become passes over all of them.

A pass runs as soon as every sequence in a reply has submitted a request. The thread whose request came last
runs it if it is short: to wake another one would take a share of its time that counts. Long passes, as of
prompts, all run in one thread: the kernels keep buffers for each thread, as large as its longest pass needs.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType

from edgedec.backends.backend import Observe, PassRequest, Submit, unobserved
from edgedec.backends.onnx.sequences import Sequences
from edgedec.core.errors import BackendError
from edgedec.core.forward import Forward
from edgedec.core.rows import HeadRows

_CLOSED = "the batch was closed"
_SHORT_TOKENS = 16
"""Tokens of a pass that any thread runs: those of one sequence with the longest draft."""


class _Waiting:
    """A request, and its result."""

    def __init__(self, request: PassRequest) -> None:
        self.request = request
        self.rows: HeadRows | None = None
        self.error: BaseException | None = None
        self._done = threading.Lock()  # an Event takes ten times as long to make and to wait for
        self._done.acquire()

    def done(self) -> None:
        """Let ``wait`` return."""
        self._done.release()

    def wait(self) -> None:
        """Wait for ``done``, once."""
        self._done.acquire()

    def result(self) -> HeadRows:
        """Return the rows, or raise the error."""
        if self.error is not None:
            raise self.error
        assert self.rows is not None
        return self.rows


class Batcher:
    """The ``SequenceBatch`` that runs the requests of ``submit`` together.

    ``make`` builds the computation, whose forwards call the ``submit`` that it is given. ``observe`` sees
    each pass. A request that does not fit into a pass begins the next one, which waits for nobody: so the
    pieces of a long prompt take turns with everyone else. Use it as a context manager, or ``close`` it.
    """

    def __init__(
        self,
        make: Callable[[Submit], Sequences],
        *,
        observe: Observe = unobserved,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._combined = make(self.submit)
        self._observe = observe
        self._clock = clock
        self._changed = threading.Condition()
        """Only the thread that runs passes waits for it: to wake everybody at every request would take longer
        than a pass."""
        self._active: set[int] = set()
        self._queue: list[_Waiting] = []
        self._left_over = False
        self._running = False
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="passes", daemon=True)
        self._thread.start()

    @property
    def forwards(self) -> tuple[Forward, ...]:
        """See ``SequenceBatch.forwards``."""
        return self._combined.forwards

    @contextmanager
    def reply(self, sequence: int) -> Iterator[None]:
        """See ``SequenceBatch.reply``."""
        with self._changed:
            if sequence in self._active:
                raise ValueError(f"sequence {sequence} is in a reply already")
            self._active.add(sequence)
        try:
            yield
        finally:
            with self._changed:
                self._active.discard(sequence)
                self._changed.notify()

    def submit(self, request: PassRequest) -> HeadRows:
        """Wait for the pass that this request is in.

        Raises the error of ``Sequences.check``, before the request can harm another one; the error of
        the pass; BackendError after ``close``.
        """
        self._combined.check(request)
        waiting = _Waiting(request)
        with self._changed:
            if self._closed:
                raise BackendError(_CLOSED)
            self._queue.append(waiting)
            taken = self._taken_short()
        if taken:
            self._run(taken)
        try:
            waiting.wait()
        except BaseException:  # Ctrl-C: it must be in no later pass
            with self._changed:
                begun = waiting not in self._queue
                self._queue = [other for other in self._queue if other is not waiting]
            if begun:
                waiting.wait()
            raise
        return waiting.result()

    def close(self) -> None:
        """End the thread after the pass in progress; waiting callers get a BackendError."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._running)
        self._thread.join()
        with self._changed:
            for waiting in self._queue:
                waiting.error = BackendError(_CLOSED)
                waiting.done()
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

    def _taken_short(self) -> list[_Waiting]:
        """Take the requests of the next pass if it is ready and the caller can run it.

        The thread runs a long one, and those of the main thread, which Ctrl-C may end at any point.
        """
        if not self._ready:
            return []
        short = sum(len(waiting.request.tokens) for waiting in self._queue) <= _SHORT_TOKENS
        if short and threading.current_thread() is not threading.main_thread():
            return self._take()
        self._changed.notify()
        return []

    @property
    def _ready(self) -> bool:
        if self._running:
            return False
        if not self._queue:
            self._left_over = False
            return False
        return self._left_over or self._active <= {waiting.request.sequence for waiting in self._queue}

    def _take(self) -> list[_Waiting]:
        """Take requests from the front of the queue that fit into a pass; the first always does."""
        taken: list[_Waiting] = []
        rest: list[_Waiting] = []
        room = self._combined.most
        for waiting in self._queue:
            count = len(waiting.request.tokens)
            (taken if count <= room else rest).append(waiting)
            room -= count if count <= room else 0
        self._queue, self._left_over, self._running = rest, bool(rest), True
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
        else:
            for waiting, rows in zip(taken, found, strict=True):
                waiting.rows = rows
        with self._changed:
            self._running = False
            if self._queue or self._closed:
                self._changed.notify_all()
        for waiting in taken:
            waiting.done()
