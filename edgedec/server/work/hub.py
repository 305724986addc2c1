"""All models of a server: opened when a request names them, within one budget.

One thread opens and closes models; each has a ``Scheduler``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from edgedec.core.errors import UsageError
from edgedec.core.progress import Notice, Progress, ignore
from edgedec.server.work.catalogue import Adapted, InstalledModels
from edgedec.server.work.encoders import EncoderPool
from edgedec.server.work.entry import ModelEntry
from edgedec.server.work.model_loading import LoadingThread
from edgedec.server.work.opener import OpenModel, SchedulerOpener, opener_of
from edgedec.server.work.request import (
    BusyError,
    GenerationRequest,
    ModelInfo,
    QueueLimits,
    Status,
)
from edgedec.server.work.room import GpuRoom, ModelRoom
from edgedec.server.work.text_request import TextRequest
from edgedec.server.work.ticket import Ticket
from edgedec.system.memory import rss_bytes

if TYPE_CHECKING:
    from edgedec.assemble.config import RunConfig
    from edgedec.embed.encoder import Encoder
    from edgedec.models import Store

T = TypeVar("T")


class Hub:
    """Serves the installed models of ``store``; ``names``: those to have, the first for requests without one.

    ``config`` is that of every model; its ``conversations`` are slots, its ``memory`` is that of the process.
    An ``Adapted`` is one of them with an adapter, by a name of its own.
    ``notice`` gets lines for the user, from any thread. Nothing is opened until ``load`` or a request.
    Raises NotFoundError for a name that is not installed, and UsageError for none.
    """

    def __init__(
        self,
        names: Sequence[str | Adapted],
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
        self.limits = limits or QueueLimits()
        self.store = store
        self._installed = InstalledModels(
            store, config.context, [one for one in names if isinstance(one, Adapted)]
        )
        self._names = [self._installed.served(one).name for one in names if isinstance(one, str)]
        self._started_s = time.perf_counter()
        self._use = 0
        self._requests = self._refused = self._failed = self._cancelled = 0
        self._room = None if memory is None else ModelRoom(memory)
        opening = open_model or opener_of(store, notice)
        on_gpu = GpuRoom(config.placement.memory if config.device == "gpu" else None)
        self._encoders = EncoderPool(self.limits, self._room, config.threads, store.home)
        self._loading = LoadingThread(
            SchedulerOpener(config, self.limits, opening, self._room, on_gpu, notice), notice
        )

    @property
    def default(self) -> str:
        """The model of requests that name none."""
        return self._names[0]

    def models(self) -> list[ModelInfo]:
        """Return the models that requests can name: first those of the server's start, then by name."""
        infos = {info.name: info for info in self._installed.infos()}
        with self._loading.changed:
            ready = {one.name: one.ready for one in self._loading.entries.values()}
        for name in self._encoders.loaded():
            if name in infos:
                infos[name] = replace(infos[name], loaded=True)
        for name, scheduler in ready.items():
            if scheduler and name in infos:
                infos[name] = replace(infos[name], loaded=True, context=scheduler.context)
        first = [name for name in dict.fromkeys(self._names) if name in infos]
        return [infos.pop(name) for name in first] + [*infos.values()]

    def chats(self, name: str) -> bool:
        """Whether an installed model has a chat template. Raises NotFoundError."""
        return self._installed.info(name).has_template

    def check_name(self, name: str) -> None:
        """Raise NotFoundError for a name that ``pull`` cannot fetch. Files of this machine have none."""
        from edgedec.models.names import exists, hub_file, recipe_name, unknown

        if recipe_name(name) is None and (exists(name) or hub_file(name) is None):
            raise unknown(name, (one.name for one in self.store.list()))

    def pull(self, name: str, progress: Progress) -> None:
        """Fetch a model; ``progress`` may end that by raising. Raises as ``Store.pull``."""
        self.check_name(name)
        self.store.pull(name, progress=progress)

    def load(self, name: str | None = None) -> None:
        """Open a model now, and wait until requests to it can begin. Raises the errors of opening it."""
        bundle = self._installed.path(self.default if name is None else name)
        if self._installed.encodes(bundle):
            self._encoders.ask(bundle, lambda _encoder: None)
            return
        done: Future[None] = Future()
        with self._loading.changed:
            entry = self._entry(name)
            if entry.ready:
                return
            entry.loads.append(done)
            self._loading.changed.notify_all()
        done.result()

    def submit(self, request: GenerationRequest | TextRequest) -> Ticket:
        """Take a request, whose events the ticket has.

        Raises NotFoundError for a model that is not installed, MemoryBudgetError for one that does not fit,
        UsageError, BusyError when the queue is full, ClosingError after ``close``.
        """
        if request.samples > self.limits.samples:
            raise UsageError(
                f"{request.samples} replies are not possible", hint=f"ask for 1 to {self.limits.samples}"
            )
        with self._loading.changed:
            entry = self._entry(request.model)
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
            if entry.ready:
                entry.ready.submit(ticket)
            else:
                entry.pending.append(ticket)
                self._loading.changed.notify_all()
            return ticket

    def encode(self, name: str | None, question: Callable[[Encoder], T]) -> tuple[str, T]:
        """Return the name of an encoder, and what ``question`` makes of it; None: the default model.

        Raises NotFoundError for a model that is not installed, UnsupportedError for one that replies, and the
        errors of ``EncoderPool.ask``.
        """
        bundle = self._installed.path(self.default if name is None else name)
        return bundle.name, self._encoders.ask(bundle, question)

    def status(self) -> Status:
        """Return the state of the server."""
        with self._loading.changed:
            entries = [*self._loading.entries.values()]
            schedulers = [one.scheduler for one in entries if one.scheduler]
            totals = self._loading.totals
            waiting = sum(one.waiting for one in entries)
            models = [one.status() for one in entries if one.state != "closed"]
        for scheduler in schedulers:
            totals = totals.plus(scheduler.counted())
        return Status(
            closing=self._loading.closing,
            uptime_s=time.perf_counter() - self._started_s,
            memory_bytes=rss_bytes(),
            memory_budget_bytes=self._room.budget if self._room else None,
            running=sum(scheduler.running for scheduler in schedulers),
            waiting=waiting,
            slots=sum(len(scheduler.slots) for scheduler in schedulers),
            models=tuple(models),
            requests=self._requests,
            refused=self._refused,
            failed=self._failed,
            cancelled=self._cancelled,
            **vars(totals),
        )

    def close(self, *, finish_s: float = 0.0) -> None:
        """Take no more requests, finish replies for ``finish_s``, interrupt the rest, and end all threads.

        Requests to models that are not open yet fail. May be called again, also with less time.
        """
        self._encoders.close()
        self._loading.close(finish_s)

    def _entry(self, name: str | None) -> ModelEntry:
        """Return the entry of a model by one of its names. The lock is held."""
        entry = self._loading.entry(self._installed.served(self.default if name is None else name))
        if entry.refused:
            raise entry.refused
        return entry

    def _check_queue(self, entry: ModelEntry) -> None:
        """Raise BusyError when the queue is full. The lock is held."""
        waiting, ready = sum(one.waiting for one in self._loading.entries.values()), entry.ready
        if waiting >= self.limits.waiting + (ready.free if ready else 0):
            self._refused += 1
            seconds = (ready.wait_s() if ready else self._loading.opening_s) or 1.0
            seconds = min(max(seconds, 1.0), self.limits.request_s)
            raise BusyError(f"{waiting} requests are waiting, and no more can", retry_after_s=seconds)

    def _ticket_ended(self, ticket: Ticket) -> None:
        with self._loading.changed:
            self._failed += ticket.error is not None
            self._cancelled += ticket.cancelled
            self._loading.changed.notify_all()
