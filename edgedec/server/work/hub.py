"""All models of a server: opened when a request names them, within one budget.

One thread opens and closes models; each has a ``Scheduler``.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Condition, Thread
from typing import TYPE_CHECKING, Literal

from edgedec.core.errors import EdgeDecError, MemoryBudgetError, UsageError
from edgedec.core.progress import Notice, ignore
from edgedec.memory.release import release_code, release_freed
from edgedec.server.work.catalogue import InstalledModels
from edgedec.server.work.opener import OpenModel, SchedulerOpener, opener_of
from edgedec.server.work.request import (
    BusyError,
    ClosingError,
    GenerationRequest,
    ModelInfo,
    ModelStatus,
    QueueLimits,
    Status,
)
from edgedec.server.work.room import ModelRoom, NoRoomBeside
from edgedec.server.work.scheduler import Scheduler
from edgedec.server.work.ticket import Ticket
from edgedec.server.work.totals import WorkTotals
from edgedec.telemetry.process import rss_bytes

if TYPE_CHECKING:
    from edgedec.assemble.config import RunConfig
    from edgedec.models import Store

_OPENING_S = 10.0
"""Guess of the time that opening a model takes, before one was opened."""
_END_S = 120.0
"""Longest wait for the thread that opens models."""


@dataclass(eq=False)
class _Entry:
    """A model that was asked for."""

    name: str
    path: Path
    state: Literal["closed", "loading", "ready", "closing"] = "closed"
    scheduler: Scheduler | None = None
    pending: list[Ticket] = field(default_factory=list)
    """Requests that wait for the model to open."""
    loads: list[Future[None]] = field(default_factory=list)
    refused: MemoryBudgetError | None = None
    """The reason why it can never be opened."""
    used: int = 0


class Hub:
    """Serves the installed models of ``store``; ``names``: those to have, the first for requests without one.

    ``config`` is that of every model; its ``conversations`` are slots, its ``memory`` is that of the process.
    ``notice`` gets lines for the user, from any thread. Nothing is opened until ``load`` or a request.
    Raises NotFoundError for a name that is not installed, and UsageError for none.
    """

    def __init__(
        self,
        names: Sequence[str],
        config: RunConfig,
        *,
        store: Store,
        limits: QueueLimits | None = None,
        notice: Notice = ignore,
        open_model: OpenModel | None = None,
    ) -> None:
        if not names:
            raise UsageError("a server needs a model", hint="name one that is installed")
        memory = config.memory_bytes
        if callable(memory):
            raise UsageError("the memory of a server is a number of bytes")
        self._notice = notice
        self.limits = limits or QueueLimits()
        self._installed = InstalledModels(store, config.context)
        self._opener = SchedulerOpener(
            config,
            self.limits,
            open_model or opener_of(store, notice),
            None if memory is None else ModelRoom(memory),
            notice,
        )
        self._names = [self._installed.path(name).name for name in names]
        self._entries: dict[str, _Entry] = {}
        self._changed = Condition()
        self._closing = False
        self._started_s = time.perf_counter()
        self._opening_s = _OPENING_S
        self._use = 0
        self._requests = self._refused = self._failed = self._cancelled = 0
        self._totals = WorkTotals()
        """Counts of models that were closed."""
        self._thread = Thread(target=self._work, name="models", daemon=True)
        self._thread.start()

    @property
    def default(self) -> str:
        """The model of requests that name none."""
        return self._names[0]

    def models(self) -> list[ModelInfo]:
        """Return the models that requests can name: first those of the server's start, then by name."""
        infos = {info.name: info for info in self._installed.infos()}
        with self._changed:
            ready = {one.name: one.scheduler for one in self._entries.values() if one.state == "ready"}
        for name, scheduler in ready.items():
            if scheduler and name in infos:
                infos[name] = replace(infos[name], loaded=True, context=scheduler.context)
        first = [name for name in dict.fromkeys(self._names) if name in infos]
        return [infos.pop(name) for name in first] + [*infos.values()]

    def load(self, name: str | None = None) -> None:
        """Open a model now, and wait until requests to it can begin. Raises the errors of opening it."""
        done: Future[None] = Future()
        with self._changed:
            entry = self._entry(name)
            if entry.refused:
                raise entry.refused
            if entry.state == "ready":
                return
            entry.loads.append(done)
            self._changed.notify_all()
        done.result()

    def submit(self, request: GenerationRequest) -> Ticket:
        """Take a request, whose events the ticket has.

        Raises NotFoundError for a model that is not installed, MemoryBudgetError for one that does not fit,
        UsageError, BusyError when the queue is full, ClosingError after ``close``.
        """
        if request.samples > self.limits.samples:
            raise UsageError(
                f"{request.samples} replies are not possible", hint=f"ask for 1 to {self.limits.samples}"
            )
        with self._changed:
            entry = self._entry(request.model)
            if entry.refused:
                raise entry.refused
            self._check_queue(entry)
            self._use += 1
            entry.used = self._use
            self._requests += 1
            now = time.perf_counter()
            ticket = Ticket(
                request,
                entry.name,
                arrived_s=now,
                deadline_s=now + self.limits.request_s,
                ended=self._ticket_ended,
            )
            if entry.state == "ready" and entry.scheduler:
                entry.scheduler.submit(ticket)
            else:
                entry.pending.append(ticket)
                self._changed.notify_all()
            return ticket

    def status(self) -> Status:
        """Return the state of the server."""
        with self._changed:
            entries = [(one, one.scheduler, one.state) for one in self._entries.values()]
            waiting = sum(_live(one.pending) for one, _, _ in entries)
            counts = {
                "requests": self._requests,
                "refused": self._refused,
                "failed": self._failed,
                "cancelled": self._cancelled,
            }
            totals = self._totals
        models = [_status(*one) for one in entries if one[2] != "closed"]
        schedulers = [scheduler for _, scheduler, _ in entries if scheduler]
        for scheduler in schedulers:
            totals = totals.plus(scheduler.counted())
        return Status(
            closing=self._closing,
            uptime_s=time.perf_counter() - self._started_s,
            memory_bytes=rss_bytes(),
            memory_budget_bytes=self._opener.room.budget if self._opener.room else None,
            running=sum(scheduler.running for scheduler in schedulers),
            waiting=waiting + sum(scheduler.waiting for scheduler in schedulers),
            slots=sum(len(scheduler.slots) for scheduler in schedulers),
            models=tuple(models),
            **counts,
            **vars(totals),
        )

    def close(self, *, finish_s: float = 0.0) -> None:
        """Take no more requests, finish replies for ``finish_s``, interrupt the rest, and end all threads.

        Requests to models that are not open yet fail. May be called again, also with less time.
        """
        until = time.monotonic() + finish_s
        with self._changed:
            self._closing = True
            entries = [*self._entries.values()]
            self._changed.notify_all()
        for entry in entries:
            self._fail(entry, ClosingError("the server is shutting down"))
        for again in (True, False):
            for entry in entries:
                _close(entry, max(until - time.monotonic(), 0.0))
            if again:
                self._thread.join(_END_S)
        for entry in entries:
            self._forget(entry)
        _release()

    def _entry(self, name: str | None) -> _Entry:
        """Return the entry of a model by one of its names. The lock is held."""
        if self._closing:
            raise ClosingError("the server is shutting down")
        path = self._installed.path(self.default if name is None else name)
        return self._entries.setdefault(path.name, _Entry(path.name, path))

    def _check_queue(self, entry: _Entry) -> None:
        """Raise BusyError when the queue is full. The lock is held."""
        schedulers = [one.scheduler for one in self._entries.values() if one.scheduler]
        waiting = sum(_live(one.pending) for one in self._entries.values())
        waiting += sum(one.waiting for one in schedulers)
        ready = entry.scheduler if entry.state == "ready" else None
        if waiting >= self.limits.waiting + (ready.free if ready else 0):
            self._refused += 1
            seconds = (ready.wait_s() if ready else self._opening_s) or 1.0
            seconds = min(max(seconds, 1.0), self.limits.request_s)
            raise BusyError(f"{waiting} requests are waiting, and no more can", retry_after_s=seconds)

    def _ticket_ended(self, ticket: Ticket) -> None:
        with self._changed:
            self._failed += ticket.error is not None
            self._cancelled += ticket.cancelled
            self._changed.notify_all()

    def _notify(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _work(self) -> None:
        while (entry := self._wanted()) is not None:
            began = time.perf_counter()
            try:
                scheduler = self._opened(entry)
            except Exception as error:  # whoever asked for the model gets it
                if isinstance(error, EdgeDecError):
                    error = error.reworded(error.message)  # without frames, which refer to the model
                with self._changed:
                    entry.state = "closed"
                    if isinstance(error, MemoryBudgetError):
                        entry.refused = error
                self._fail(entry, error)
                continue
            with self._changed:
                self._opening_s = time.perf_counter() - began
                entry.scheduler, entry.state = scheduler, "ready"
                tickets, entry.pending = entry.pending, []
                loads, entry.loads = entry.loads, []
                for ticket in tickets:
                    scheduler.submit(ticket)
            for load in loads:
                load.set_result(None)
            del scheduler

    def _wanted(self) -> _Entry | None:
        """Wait for a model that is to be opened, that of the oldest request first; None in the end."""
        with self._changed:
            while not self._closing:
                asked = [one for one in self._entries.values() if one.state == "closed"]
                for entry in asked:
                    entry.pending = [ticket for ticket in entry.pending if not ticket.over]
                asked = [one for one in asked if one.pending or one.loads]
                if asked:
                    entry = min(asked, key=lambda one: min((t.arrived_s for t in one.pending), default=0.0))
                    entry.state = "loading"
                    return entry
                self._changed.wait()
            return None

    def _opened(self, entry: _Entry) -> Scheduler:
        while True:
            if self._closing:
                raise ClosingError("the server is shutting down")
            with self._changed:
                others = [one for one in self._entries.values() if one.state == "ready"]
            try:
                idle = any(not _busy(one) for one in others)
                if self._opener.may_open(entry.path, len(others), idle=idle):
                    return self._opener.opened(entry.name, entry.path, self._notify)
            except NoRoomBeside:
                pass
            finally:
                _release()
            self._close_one(others)

    def _close_one(self, others: Sequence[_Entry]) -> None:
        """Close the model that was used longest ago, an idle one before one with requests.

        Those in progress end first; those that wait are answered when the model is open again.
        """
        with self._changed:
            entry = min(others, key=lambda one: (_busy(one), one.used))
            scheduler = entry.scheduler
            assert scheduler is not None
            entry.state = "closing"
            entry.pending = [*scheduler.withdraw(), *entry.pending]
        scheduler.close(0.0 if self._closing else self.limits.request_s)
        del scheduler
        self._forget(entry)
        _release()
        if self._opener.room:
            self._opener.room.closed(entry.name)
        self._notice(f"closed {entry.name} to make room")

    def _forget(self, entry: _Entry) -> None:
        """Let go of a model that was closed; its counts stay."""
        with self._changed:
            if entry.scheduler:
                self._totals = self._totals.plus(entry.scheduler.counted())
            entry.scheduler, entry.state = None, "closed"

    def _fail(self, entry: _Entry, error: Exception) -> None:
        """Tell whoever waits for a model that it will not open."""
        with self._changed:
            tickets, entry.pending = entry.pending, []
            loads, entry.loads = entry.loads, []
        for ticket in tickets:
            ticket.fail(error)
        for load in loads:
            load.set_exception(error)


def _release() -> None:
    """Give the memory of models back that nothing refers to any more."""
    gc.collect()
    release_freed()
    release_code()


def _close(entry: _Entry, finish_s: float) -> None:
    """End the work of a model; its memory is free when nothing refers to the scheduler any more."""
    if scheduler := entry.scheduler:
        scheduler.close(finish_s)


def _live(tickets: Sequence[Ticket]) -> int:
    return sum(not ticket.over for ticket in tickets)


def _busy(entry: _Entry) -> bool:
    return entry.scheduler is not None and entry.scheduler.busy


def _status(entry: _Entry, scheduler: Scheduler | None, state: str) -> ModelStatus:
    if scheduler:
        return scheduler.status(state)
    return ModelStatus(
        name=entry.name, state=state, context=None, waiting=_live(entry.pending), slots=(), ledger={}
    )
