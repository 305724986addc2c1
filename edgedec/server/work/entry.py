"""A model of a server: closed, being opened, ready, or being closed."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import field, replace
from typing import TYPE_CHECKING, Literal

from edgedec.core.quick_dataclass import dataclass
from edgedec.server.work.request import ModelStatus

if TYPE_CHECKING:
    from edgedec.core.errors import MemoryBudgetError
    from edgedec.server.work.catalogue import Served
    from edgedec.server.work.scheduler import Scheduler
    from edgedec.server.work.ticket import Ticket


@dataclass(eq=False)
class ModelEntry:
    """A model that was asked for. The lock of the loading thread guards it."""

    model: Served
    state: Literal["closed", "loading", "ready", "closing"] = "closed"
    scheduler: Scheduler | None = None
    pending: list[Ticket] = field(default_factory=list)
    """Requests that wait for the model to open."""
    loads: list[Future[None]] = field(default_factory=list)
    """Those who wait for the model itself."""
    refused: MemoryBudgetError | None = None
    """The reason why it can never be opened."""
    used: int = 0
    """Its last use, on a scale that grows."""

    @property
    def name(self) -> str:
        """The name that requests have for it."""
        return self.model.name

    @property
    def ready(self) -> Scheduler | None:
        """The scheduler that takes requests; None while there is none."""
        return self.scheduler if self.state == "ready" else None

    @property
    def waiting(self) -> int:
        """Requests that wait for the model or for a slot of it."""
        live = sum(not ticket.over for ticket in self.pending)
        return live + (self.scheduler.waiting if self.scheduler else 0)

    @property
    def busy(self) -> bool:
        """Whether anything runs or waits in its slots."""
        return self.scheduler is not None and self.scheduler.busy

    def taken(self) -> tuple[list[Ticket], list[Future[None]]]:
        """Take those who wait for the model out, and return them."""
        found = self.pending, self.loads
        self.pending, self.loads = [], []
        return found

    def close(self, finish_s: float) -> None:
        """End the work of the model; its memory is free when nothing refers to the scheduler any more."""
        if scheduler := self.scheduler:
            scheduler.close(finish_s)

    def status(self) -> ModelStatus:
        """Return the state of the model."""
        scheduler = self.scheduler
        if scheduler:
            return replace(scheduler.status(self.state, waiting=self.waiting), name=self.name)
        return ModelStatus(
            name=self.name, state=self.state, context=None, waiting=self.waiting, slots=(), ledger={}
        )
