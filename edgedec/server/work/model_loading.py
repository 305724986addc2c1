"""Opens models that requests name, and closes others to make room, in one thread."""

from __future__ import annotations

import gc
import time
from collections.abc import Sequence
from threading import Condition, Thread
from typing import TYPE_CHECKING

from edgedec.core.errors import EdgeDecError, MemoryBudgetError
from edgedec.memory.release import release_code
from edgedec.server.work.catalogue import Served
from edgedec.server.work.entry import ModelEntry
from edgedec.server.work.request import ClosingError
from edgedec.server.work.room import NoRoomBeside
from edgedec.server.work.totals import WorkTotals
from edgedec.system.allocator import release_freed

if TYPE_CHECKING:
    from edgedec.core.progress import Notice
    from edgedec.server.work.opener import SchedulerOpener
    from edgedec.server.work.scheduler import Scheduler

_OPENING_S = 10.0
"""Guess of the time that opening a model takes, before one was opened."""
_END_S = 120.0
"""Longest wait for the thread that opens models."""


class LoadingThread:
    """The models of a server. ``changed`` is held by whoever reads or changes ``entries``."""

    def __init__(self, opener: SchedulerOpener, notice: Notice) -> None:
        self.changed = Condition()
        self.entries: dict[str, ModelEntry] = {}
        self.closing = False
        self.totals = WorkTotals()
        """Counts of models that were closed."""
        self.opening_s = _OPENING_S
        """Seconds that opening the latest model took."""
        self._opener = opener
        self._notice = notice
        self._thread = Thread(target=self._work, name="models", daemon=True)
        self._thread.start()

    def entry(self, model: Served) -> ModelEntry:
        """Return the entry of a model. Raises ClosingError after ``close``."""
        if self.closing:
            raise ClosingError("the server is shutting down")
        return self.entries.setdefault(model.name, ModelEntry(model))

    def notify(self) -> None:
        """Look again at what is to be done."""
        with self.changed:
            self.changed.notify_all()

    def close(self, finish_s: float) -> None:
        """Close all models: see ``Hub.close``."""
        until = time.monotonic() + finish_s
        with self.changed:
            self.closing = True
            entries = [*self.entries.values()]
            self.changed.notify_all()
        for entry in entries:
            self._fail(entry, ClosingError("the server is shutting down"))
        for again in (True, False):  # one may be open by then that was being opened
            for entry in entries:
                entry.close(max(until - time.monotonic(), 0.0))
            if again:
                self._thread.join(_END_S)
        for entry in entries:  # requests that were withdrawn meanwhile, to make room
            self._fail(entry, ClosingError("the server is shutting down"))
            self._forget(entry)
        _release()

    def _work(self) -> None:
        while (entry := self._wanted()) is not None:
            began = time.perf_counter()
            try:
                scheduler = self._opened(entry)
            except Exception as error:  # whoever asked for the model gets it
                if isinstance(error, EdgeDecError):
                    error = error.reworded(error.message)  # without frames, which refer to the model
                with self.changed:
                    entry.state = "closed"
                    if isinstance(error, MemoryBudgetError):
                        entry.refused = error
                self._fail(entry, error)
                continue
            with self.changed:
                self.opening_s = time.perf_counter() - began
                entry.scheduler, entry.state = scheduler, "ready"
                tickets, loads = entry.taken()
                for ticket in tickets:
                    scheduler.submit(ticket)
            for load in loads:
                load.set_result(None)
            del scheduler

    def _wanted(self) -> ModelEntry | None:
        """Wait for a model that is to be opened, that of the oldest request first; None in the end."""
        with self.changed:
            while not self.closing:
                asked = [one for one in self.entries.values() if one.state == "closed"]
                for entry in asked:
                    entry.pending = [ticket for ticket in entry.pending if not ticket.over]
                asked = [one for one in asked if one.pending or one.loads]
                if asked:
                    entry = min(asked, key=lambda one: min((t.arrived_s for t in one.pending), default=0.0))
                    entry.state = "loading"
                    return entry
                self.changed.wait()
            return None

    def _opened(self, entry: ModelEntry) -> Scheduler:
        while True:
            if self.closing:
                raise ClosingError("the server is shutting down")
            with self.changed:
                others = [one for one in self.entries.values() if one.state == "ready"]
            try:
                idle = any(not one.busy for one in others)
                if self._opener.may_open(entry.model.path, len(others), idle=idle):
                    return self._opener.opened(entry.model, self.notify)
            except NoRoomBeside:
                pass
            finally:
                _release()
            self._close_one(others)

    def _close_one(self, others: Sequence[ModelEntry]) -> None:
        """Close the model that was used longest ago, an idle one before one with requests.

        Those in progress end first; those that wait are answered when the model is open again.
        """
        with self.changed:
            entry = min(others, key=lambda one: (one.busy, one.used))
            scheduler = entry.scheduler
            assert scheduler is not None
            entry.state = "closing"
            entry.pending = [*scheduler.withdraw(), *entry.pending]
        scheduler.close(0.0 if self.closing else self._opener.limits.request_s)
        del scheduler
        self._forget(entry)
        _release()
        self._opener.closed(entry.name)
        self._notice(f"closed {entry.name} to make room")

    def _forget(self, entry: ModelEntry) -> None:
        """Let go of a model that was closed; its counts stay."""
        with self.changed:
            if entry.scheduler:
                self.totals = self.totals.plus(entry.scheduler.counted())
            entry.scheduler, entry.state = None, "closed"

    def _fail(self, entry: ModelEntry, error: Exception) -> None:
        """Tell whoever waits for a model that it will not open."""
        with self.changed:
            tickets, loads = entry.taken()
        for ticket in tickets:
            ticket.fail(error)
        for load in loads:
            load.set_exception(error)


def _release() -> None:
    """Give the memory of models back that nothing refers to any more."""
    gc.collect()
    release_freed()
    release_code()
