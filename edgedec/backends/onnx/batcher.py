"""A rendezvous: sequences in threads of their own, whose passes become passes over all of them.

A pass runs as soon as every sequence in a reply has submitted a request. The thread whose request came last
runs it if it is short: to wake another one would take a share of its time that counts. Long passes, as of
prompts, all run in one thread: the kernels keep buffers for each thread, as large as its longest pass needs.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from traceback import clear_frames

from edgedec.backends.backend import Observe, PassRequest, Submit, unobserved
from edgedec.backends.onnx.pieces import SHORTEST, PieceSize, cut, spare_tokens
from edgedec.backends.onnx.sequences import Sequences
from edgedec.core.errors import BackendError, EdgeDecError
from edgedec.core.forward import Forward
from edgedec.core.rows import HeadRows

_CLOSED = "the batch was closed"
_SHORT_TOKENS = 16
"""Tokens of a pass that any thread runs: those of one sequence with the longest draft."""


class _Waiting:
    """A request, or what is left of it, and its result."""

    def __init__(self, request: PassRequest) -> None:
        self.request = request
        self.piece = 0
        """Tokens of a prompt's piece that are in the pass."""
        self._prompt = spare_tokens(request) > 0
        self._rest: PassRequest | None = None
        """The part of the request that the pass leaves for a later one."""
        self.rows: HeadRows | None = None
        self.error: BaseException | None = None
        self._done = threading.Lock()  # an Event takes ten times as long to make and to wait for
        self._done.acquire()

    @property
    def spare(self) -> int:
        """Tokens of a prompt that could have a pass of their own; all of its last piece. 0: no prompt."""
        return spare_tokens(self.request) or (len(self.request.tokens) if self._prompt else 0)

    def shorten(self, longest: int, spare: int) -> None:
        """Leave what is beyond ``longest`` tokens, or then beyond the ``spare`` ones, to a later pass."""
        if longest < len(self.request.tokens):
            self.request, self._rest = cut(self.request, min(longest, spare))
        self.piece = len(self.request.tokens)

    def goes_on(self) -> bool:
        """Go on to the rest of the request, if a pass has left one."""
        rest, self._rest, self.piece = self._rest, None, 0
        if rest is None or self.error is not None:
            return False
        self.request = rest
        return True

    def done(self) -> None:
        """Let ``wait`` return."""
        self._done.release()

    def wait(self) -> None:
        """Wait for ``done``, once."""
        self._done.acquire()

    def result(self) -> HeadRows:
        """Hand out the rows, once, or raise the error: threads that ran the pass still refer to this."""
        if self.error is not None:
            raise self.error
        rows, self.rows = self.rows, None
        assert rows is not None
        return rows


class Batcher:
    """The ``SequenceBatch`` that runs the requests of ``submit`` together.

    ``make`` builds the computation, whose forwards call the ``submit`` that it is given. ``observe`` sees
    each pass. Prompts are read at once: the sooner all reply, the more tokens a pass has. Beside replies that
    stream they are read in short pieces (``PieceSize``). A request that does not fit into a pass begins the
    next one, which waits for nobody. Use it as a context manager, or ``close`` it.
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
        self._awaited: set[int] = set()
        """Those of ``_active`` without a request in ``_queue``."""
        self._queue: list[_Waiting] = []
        self._left_over = False
        self._pieces = PieceSize()
        self._unread: set[int] = set()
        """Those in a reply that does not stream."""
        self._beside = False
        """Whether replies that stream are in the pass."""
        self._running = False
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="passes", daemon=True)
        self._thread.start()

    @property
    def forwards(self) -> tuple[Forward, ...]:
        """See ``SequenceBatch.forwards``."""
        return self._combined.forwards

    @contextmanager
    def reply(self, sequence: int, *, streams: bool = True) -> Iterator[None]:
        """See ``SequenceBatch.reply``."""
        with self._changed:
            if sequence in self._active:
                raise ValueError(f"sequence {sequence} is in a reply already")
            self._active.add(sequence)
            self._await([sequence])
            if not streams:
                self._unread.add(sequence)
        try:
            yield
        finally:
            with self._changed:
                for group in (self._active, self._awaited, self._unread):
                    group.discard(sequence)
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
            self._awaited.discard(request.sequence)
            taken = self._taken_short()
        if taken:
            self._run(taken)
        try:
            waiting.wait()
        except BaseException:  # Ctrl-C: it must be in no later pass
            with self._changed:
                begun = waiting not in self._queue
                self._queue = [other for other in self._queue if other is not waiting]
                self._await([request.sequence])
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

    def __exit__(self, *_: object) -> None:
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
        return self._left_over or not self._awaited

    def _await(self, sequences: Iterable[int]) -> None:
        """Wait for the next requests of those of ``sequences`` that are in a reply and have none queued."""
        queued = {waiting.request.sequence for waiting in self._queue}
        self._awaited |= self._active.intersection(sequences) - queued

    def _take(self) -> list[_Waiting]:
        """Take requests from the front of the queue that fit into a pass; the first always does.

        Of prompts beside replies that stream only pieces are taken, and those that get none now are the first
        next time.
        """
        spare = [waiting.spare for waiting in self._queue]
        self._beside = any(
            not most and waiting.request.sequence not in self._unread
            for waiting, most in zip(self._queue, spare, strict=True)
        )
        room = self._combined.most
        pieces = self._pieces.tokens if self._beside else room
        taken: list[_Waiting] = []
        late: list[_Waiting] = []
        rest: list[_Waiting] = []
        for waiting, most in zip(self._queue, spare, strict=True):
            if self._beside and most:
                if (longest := min(pieces, room)) < SHORTEST:
                    late.append(waiting)
                    continue
                waiting.shorten(longest, most)
                pieces -= len(waiting.request.tokens)
            count = len(waiting.request.tokens)
            (taken if count <= room else rest).append(waiting)
            room -= count if count <= room else 0
        self._queue, self._left_over, self._running = [*rest, *late], bool(rest), True
        self._await(waiting.request.sequence for waiting in taken)
        return taken

    def _run(self, taken: Sequence[_Waiting]) -> None:
        self._compute(taken)
        done: list[_Waiting] = []
        going: list[_Waiting] = []
        for waiting in taken:
            (going if waiting.goes_on() else done).append(waiting)
        with self._changed:
            self._running = False
            self._queue += going
            self._awaited.difference_update(waiting.request.sequence for waiting in going)
            if self._queue or self._closed:
                self._changed.notify_all()
        for waiting in done:
            waiting.done()

    def _compute(self, taken: Sequence[_Waiting]) -> None:
        """Run a pass, whose rows then belong to its requests alone."""
        requests = [waiting.request for waiting in taken]
        began = self._clock()
        try:
            found = self._combined.run(requests)
            seconds = self._clock() - began
            if self._beside:
                self._pieces.passed(seconds, sum(waiting.piece for waiting in taken))
            self._observe(requests, seconds)
        except EdgeDecError as error:
            self._run_alone(taken, error)
        except BaseException as error:  # it is everyone's whose tokens were in the pass
            for waiting in taken:
                waiting.error = error
        else:
            for waiting, rows in zip(taken, found, strict=True):
                waiting.rows = rows

    def _run_alone(self, taken: Sequence[_Waiting], error: EdgeDecError) -> None:
        """Run each of several requests whose pass failed in one of its own, for ``error`` may be one's only.

        Of a pass that cannot be repeated it is everyone's.
        """
        _let_go(error)
        if len(taken) == 1 or not self._combined.repeatable:
            for waiting in taken:
                waiting.error = error
            return
        for waiting in taken:
            try:
                (waiting.rows,) = self._combined.run([waiting.request])
            except BaseException as own:
                waiting.error = own


def _let_go(error: BaseException | None) -> None:
    """Forget what the calls had that ``error`` ended: it refers to them, and they refer to rows."""
    while error is not None:
        clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__
