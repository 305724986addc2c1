"""The events of one request, from the threads that compute them to the one reader.

A reader that is slow, or gone, keeps no pass waiting: its events wait in a queue, which the tokens of the
replies bound.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal

from edgedec.server.work.request import Ended, Event, GenerationRequest, Piece, Usage
from edgedec.server.work.text_request import TextRequest

if TYPE_CHECKING:
    from edgedec.server.work.intake import ReplyInputs
    from edgedec.session.reply import Reply

INTERRUPTED = "interrupted"
_END = Ended(-1, "", Usage())
"""Behind the last event."""


class SampleJob:
    """One reply to a request. Its ticket changes it."""

    def __init__(self, ticket: Ticket, number: int) -> None:
        self.ticket = ticket
        self.number = number
        self.state: Literal["waiting", "running", "over"] = "waiting"
        self.ready = number == 0
        """Whether it may begin: the first sample computes the prompt for all."""
        self.begun = False
        """Whether its first text is there, and so its prompt in the cache."""
        self.reply: Reply | None = None


class Ticket:
    """A request that was taken: iterate over it once, with ``for`` or ``async for``, to get its events.

    An error ends the iteration by being raised. An iteration that is abandoned cancels the request. ``model``
    is the model's name; ``arrived_s`` and ``deadline_s`` are times of ``time.perf_counter``. ``ended`` is
    called once, when the last event or the error is there.
    """

    def __init__(
        self,
        request: GenerationRequest | TextRequest,
        model: str,
        *,
        arrived_s: float,
        deadline_s: float,
        ended: Callable[[Ticket], None] = lambda ticket: None,
    ) -> None:
        self.request = request
        self.model = model
        self._ended: Callable[[Ticket], None] | None = ended
        self.arrived_s = arrived_s
        self.deadline_s = deadline_s
        self.inputs: ReplyInputs | None = None
        """The prompt, once it is known."""
        self.answer: Any = None
        """The answer to a question about texts."""
        self.jobs = tuple(SampleJob(self, number) for number in range(request.samples))
        self.cancelled = False
        self.error: BaseException | None = None
        self.interrupted = False
        """Whether ``cut`` was called."""
        self._events: deque[Event] = deque()
        self._left = len(self.jobs)
        self._lock = threading.Lock()
        self._wake: Callable[[], object] | None = None

    @property
    def waiting(self) -> bool:
        """Whether a sample waits for a slot."""
        return any(job.state == "waiting" for job in self.jobs)

    @property
    def untouched(self) -> bool:
        """Whether no sample has been in a slot."""
        return all(job.state == "waiting" for job in self.jobs)

    @property
    def over(self) -> bool:
        """Whether no event will follow those that wait to be read."""
        return not self._left or self.error is not None

    def cancel(self) -> None:
        """End the replies after the passes in progress, and those that wait at once. May be repeated."""
        with self._lock:
            self.cancelled = self.cancelled or not self.over
        self.cut()

    def cut(self) -> None:
        """Interrupt the replies: those that run after their passes, those that wait at once."""
        with self._lock:
            self.interrupted = True
            for job in self.jobs:
                if job.state == "waiting":
                    self._end(job, INTERRUPTED, Usage())
                elif job.reply:
                    job.reply.interrupt()
        self._notify()

    def begin(self, job: SampleJob) -> bool:
        """Take ``job`` into a slot; False when it need not begin any more."""
        with self._lock:
            if job.state == "waiting":
                job.state = "running"
                return True
            return False

    def runs(self, job: SampleJob, reply: Reply) -> None:
        """Note the reply that computes ``job``."""
        with self._lock:
            job.reply = reply
            if self.interrupted:
                reply.interrupt()

    def answered(self, answer: Any) -> None:
        """End a question about texts with its answer."""
        self.answer = answer
        for job in self.jobs:
            self.end(job, "stop", Usage())

    def put(self, piece: Piece) -> None:
        """Hand a piece to the reader."""
        with self._lock:
            self._events.append(piece)
        self._notify()

    def end(self, job: SampleJob, reason: str, usage: Usage, stop: str | None = None) -> None:
        """Hand the end of ``job`` to the reader, once."""
        with self._lock:
            self._end(job, reason, usage, stop)
        self._notify()

    def fail(self, error: BaseException) -> None:
        """End the request with an error, unless it is over; its other samples are interrupted."""
        with self._lock:
            if not self.over:
                self.error = error
        self.cut()

    def __iter__(self) -> Iterator[Event]:
        ready = threading.Event()
        try:
            while (event := self._next(ready.set)) is not _END:
                if event is None:
                    ready.wait()
                    ready.clear()
                else:
                    yield event
        finally:
            self.cancel()

    async def __aiter__(self) -> AsyncIterator[Event]:
        loop, ready = asyncio.get_running_loop(), asyncio.Event()

        def wake() -> None:
            with suppress(RuntimeError):  # the loop was closed, and its reader is gone
                loop.call_soon_threadsafe(ready.set)

        try:
            while (event := self._next(wake)) is not _END:
                if event is None:
                    await ready.wait()
                    ready.clear()
                else:
                    yield event
        finally:
            self.cancel()

    def _next(self, wake: Callable[[], object]) -> Event | None:
        """Return the next event, _END behind the last; None where ``wake`` is to be called for the next one.

        Raises the error of the request behind its last event.
        """
        with self._lock:
            if self._events:
                return self._events.popleft()
            if self.error is not None:
                raise self.error
            self._wake = None if self.over else wake
            return _END if self.over else None

    def _end(self, job: SampleJob, reason: str, usage: Usage, stop: str | None = None) -> None:
        """Book the end of ``job``. The lock is held."""
        if job.state == "over":
            return
        job.state, job.reply = "over", None  # it refers to the model
        self._left -= 1
        if self.error is None:
            self._events.append(Ended(job.number, reason, usage, stop))

    def _notify(self) -> None:
        with self._lock:
            wake, self._wake = self._wake, None
            ended = None
            if self.over:
                ended, self._ended = self._ended, None
        if wake:
            wake()
        if ended:
            ended(self)
