"""The requests to one model: a queue, slots, and the prefixes that slots have cached.

One thread reads requests and gives them to slots, oldest first; each slot computes in a thread of its own. No
lock is held while a prompt is read or a token is computed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from threading import Condition, Thread
from typing import TYPE_CHECKING

from edgedec.core.errors import EdgeDecError
from edgedec.core.progress import Notice, ignore
from edgedec.server.work.intake import Intake
from edgedec.server.work.placement import SlotView, placed
from edgedec.server.work.request import (
    ClosingError,
    ModelStatus,
    QueueLimits,
    SlotStatus,
    TimeLimitError,
    Usage,
)
from edgedec.server.work.slot import Slot
from edgedec.server.work.slot_tools import slot_tools
from edgedec.server.work.text_request import TextRequest
from edgedec.server.work.ticket import SampleJob, Ticket
from edgedec.server.work.totals import WorkTotals
from edgedec.session.shared_prefix import COPY_TRIES

if TYPE_CHECKING:
    from edgedec.api import Model
    from edgedec.sampling import DrawParams

_END_S = 60.0
"""Longest wait for threads whose replies were interrupted."""
_LOOK_S = 0.25
"""Between looks whether all requests are over, for those that wait may be cancelled."""
_READ_AHEAD = 16
"""Samples at the front of the queue whose prompts are kept."""
_NEW_PART = 0.2
"""Weight of the newest sample in the usual time of one."""


class Scheduler:
    """Answers requests to ``model``, which it closes in the end.

    ``params``: how replies are drawn unless a request says otherwise. ``idle`` is called, without a lock,
    whenever nothing runs or waits any more.
    """

    def __init__(
        self,
        model: Model,
        params: DrawParams,
        limits: QueueLimits,
        idle: Callable[[], None] = lambda: None,
        notice: Notice = ignore,
    ) -> None:
        self.model = model
        self.totals = WorkTotals()
        self._idle = idle
        self._changed = Condition()
        self._queue: list[SampleJob] = []
        self._use = 0
        self._usual_s: float | None = None
        """Seconds that a sample takes in a slot."""
        self._closing = self._stopped = False
        self._finish_by = float("inf")
        self.slots = [
            Slot(number, tools, self._begun, self._ended) for number, tools in enumerate(slot_tools(model))
        ]
        engine = self.slots[0].engine
        self.copies = len(self.slots) > 1 and engine.home.forward.copying is not None
        self._intake = Intake(model.loaded, engine, params, limits, notice)
        self._thread = Thread(target=self._work, name=f"requests to {model.name}", daemon=True)
        self._thread.start()

    @property
    def context(self) -> int:
        """Tokens that a slot has room for."""
        return self.slots[0].engine.capacity

    def submit(self, ticket: Ticket) -> None:
        """Queue a request. Raises ClosingError after ``close`` has begun."""
        with self._changed:
            if self._closing:
                raise ClosingError(f"{self.model.name} is being closed")
            if isinstance(ticket.request, TextRequest):  # it needs no slot
                self._queue[:0] = ticket.jobs
            else:
                self._queue += ticket.jobs
            self._changed.notify_all()

    def withdraw(self) -> list[Ticket]:
        """Take the requests of which nothing has begun out of the queue."""
        with self._changed:
            tickets = [one for one in self._waiting() if one.untouched]
            self._queue = [job for job in self._queue if job.ticket not in tickets]
            for ticket in tickets:
                ticket.inputs = None
            return tickets

    @property
    def running(self) -> int:
        """Requests in a slot."""
        with self._changed:
            return len({id(slot.job.ticket) for slot in self.slots if slot.job})

    @property
    def waiting(self) -> int:
        """Requests of which a sample waits for a slot."""
        with self._changed:
            return len(self._waiting())

    @property
    def free(self) -> int:
        """Slots that compute nothing."""
        with self._changed:
            return sum(slot.job is None for slot in self.slots)

    @property
    def busy(self) -> bool:
        """Whether anything runs or waits."""
        with self._changed:
            return self._busy()

    def wait_s(self) -> float | None:
        """Estimate the seconds until a slot is free for one more request; None before the first reply."""
        with self._changed:
            if self._usual_s is None:
                return None
            now, ahead = time.perf_counter(), sum(job.state == "waiting" for job in self._queue)
            left = sum(max(self._usual_s - (now - one.since_s), 0.0) for one in self.slots if one.job)
            return (left + ahead * self._usual_s) / len(self.slots)

    def status(self, state: str, waiting: int) -> ModelStatus:
        """Return the state of the model, for which ``waiting`` requests wait."""
        with self._changed:
            slots = tuple(
                SlotStatus(busy=slot.job is not None, cached_tokens=slot.engine.home.forward.length)
                for slot in self.slots
            )
        return ModelStatus(
            name=self.model.name,
            state=state,
            context=self.context,
            waiting=waiting,
            slots=slots,
            ledger=self.model.runner.ledger.by_name(),
        )

    def counted(self) -> WorkTotals:
        """Return the totals up to now, replies in progress left out."""
        work = self.model.runner.mark().work
        with self._changed:
            self.totals.passes = int(work.passes)
            return self.totals.plus(WorkTotals())

    def close(self, finish_s: float = 0.0) -> None:
        """Take no more requests, finish those in the queue for ``finish_s``, then interrupt; end all threads.

        A second call may shorten the time of the first one, which it then waits for.
        """
        with self._changed:
            self._closing = True
            self._finish_by = min(self._finish_by, time.monotonic() + finish_s)
            self._changed.notify_all()
            while self._busy() and (left := self._finish_by - time.monotonic()) > 0:
                self._changed.wait(min(left, _LOOK_S))
            tickets = {id(job.ticket): job.ticket for job in self._queue if job.state == "waiting"}
            tickets |= {id(slot.job.ticket): slot.job.ticket for slot in self.slots if slot.job}
        for ticket in tickets.values():
            if ticket.untouched:
                ticket.fail(ClosingError("the server is shutting down"))
            ticket.cut()
        with self._changed:
            self._changed.wait_for(lambda: not self._busy(), _END_S)
            first, self._stopped = not self._stopped, True
            self._changed.notify_all()
        self._thread.join(_END_S)
        ended = [slot.stop(_END_S) for slot in self.slots] if first else []
        if first and all(ended):
            self.model.close()

    def _work(self) -> None:
        while (act := self._next()) is not None:
            act()

    def _next(self) -> Callable[[], None] | None:
        """Wait for a request that can be read or begin; None in the end."""
        with self._changed:
            while not self._stopped:
                tickets = [*self._waiting(), *(slot.job.ticket for slot in self.slots if slot.job)]
                now = time.perf_counter()
                if due := [one for one in tickets if one.deadline_s <= now and not one.interrupted]:
                    return partial(_expire, due)
                wait_s = min((one.deadline_s - now for one in tickets if not one.interrupted), default=None)
                self._queue = [job for job in self._queue if job.state == "waiting"]
                free = any(slot.job is None for slot in self.slots)
                for ahead, job in enumerate(self._queue):
                    if job.ticket.inputs is None and ahead < _READ_AHEAD:
                        return partial(self._read, job.ticket)
                    if free and job.ready and job.ticket.inputs:
                        return partial(self._place, job)
                self._changed.wait(wait_s)
            return None

    def _read(self, ticket: Ticket) -> None:
        try:
            if isinstance(ticket.request, TextRequest):
                ticket.answered(ticket.request.ask(self._intake))
            else:
                ticket.inputs = self._intake.inputs(ticket.request)
        except Exception as error:  # the reader gets it, in another thread
            ticket.fail(error)

    def _place(self, job: SampleJob) -> None:
        """Give ``job`` to a free slot. Only this thread fills slots, so one that is free stays so."""
        inputs = job.ticket.inputs
        assert inputs is not None
        prompt = inputs.prompt
        views = [
            SlotView(
                slot.number,
                slot.job is None,
                slot.engine.reusable(prompt),
                slot.engine.home.forward.length,
                slot.used,
            )
            for slot in self.slots
        ]
        placement = placed(views, copies=self.copies)
        slot = self.slots[placement.slot]
        with self._changed:
            if not job.ticket.begin(job):
                return
            self._use += 1
            slot.job, slot.used, slot.since_s = job, self._use, time.perf_counter()
        if placement.source is not None:
            self._copy(self.slots[placement.source], slot, placement.tokens)
        slot.start(job)

    def _copy(self, source: Slot, slot: Slot, tokens: int) -> None:
        """Copy a prefix; where that is not possible after all, the prompt is computed."""
        try:
            for _ in range(COPY_TRIES):
                if slot.engine.home.adopt_prefix(source.engine.home, tokens):
                    return
        except EdgeDecError:
            slot.engine.reset()

    def _begun(self, job: SampleJob) -> None:
        """Let the other samples of a request begin, for the first one has computed the prompt."""
        if len(job.ticket.jobs) > 1 and job.number == 0:
            with self._changed:
                for other in job.ticket.jobs:
                    other.ready = True
                self._changed.notify_all()

    def _ended(self, slot: Slot, job: SampleJob, usage: Usage) -> None:
        with self._changed:
            took = time.perf_counter() - slot.since_s
            self._usual_s = (
                took if self._usual_s is None else self._usual_s + _NEW_PART * (took - self._usual_s)
            )
            slot.job = None
            self.totals.add(usage)
            for other in job.ticket.jobs:
                other.ready = True
            self._changed.notify_all()
            idle = not self._busy()
        if idle:
            self._idle()

    def _waiting(self) -> list[Ticket]:
        found = {id(job.ticket): job.ticket for job in self._queue if job.state == "waiting"}
        return [*found.values()]

    def _busy(self) -> bool:
        return any(slot.job for slot in self.slots) or any(job.state == "waiting" for job in self._queue)


def _expire(tickets: Sequence[Ticket]) -> None:
    """End requests that are due."""
    for ticket in tickets:
        if ticket.untouched:
            ticket.fail(TimeLimitError("the request waited for too long", hint="try again later"))
        ticket.cut()
