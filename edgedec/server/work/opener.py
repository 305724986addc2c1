"""Opens a model with its slots, beside those that are open."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from edgedec.core.errors import UnsupportedError
from edgedec.core.progress import Notice
from edgedec.core.quick_dataclass import dataclass
from edgedec.sampling import DrawParams
from edgedec.server.work.catalogue import weight_bytes
from edgedec.server.work.scheduler import Scheduler

if TYPE_CHECKING:
    from edgedec.api import Model
    from edgedec.assemble.config import RunConfig
    from edgedec.models import Store
    from edgedec.server.work.request import QueueLimits
    from edgedec.server.work.room import ModelRoom

OpenModel = Callable[[Path, "RunConfig"], "Model"]
"""Opens the model of a bundle."""
WHOLE_ROWS = DrawParams(temperature=1.0, top_p=0.9, repetition_penalty=1.1, typical=0.95)
"""Draws that take the most memory: requests may name any sampling, so plans have room for it."""


@dataclass(frozen=True, slots=True)
class SchedulerOpener:
    """Opens models that all run as ``config`` says; ``room`` is the budget that they share."""

    config: RunConfig
    limits: QueueLimits
    open_model: OpenModel
    room: ModelRoom | None
    notice: Notice

    def may_open(self, bundle: Path, others: int, *, idle: bool) -> bool:
        """Return whether it is worth while to try to open a model beside ``others`` more.

        ``idle``: whether one of these can be closed at once.
        """
        if self.room:
            return not idle or self.room.fits(weight_bytes(bundle))
        return others < self.limits.models

    def opened(self, name: str, bundle: Path, idle: Callable[[], None]) -> Scheduler:
        """Open a model; ``idle`` is that of its scheduler.

        Raises NoRoomBeside, MemoryBudgetError where it does not fit alone either, the errors of ``api.open``.
        """
        config = self.config
        if self.room:
            rule = self.room.rule(elastic=config.context is None)
            config = replace(config, memory=rule, sampling=WHOLE_ROWS, structured=True)
        model = self._with_slots(bundle, config)
        if self.room and model.budget:
            self.room.opened(name, model.budget.plan)
        params = self.config.sampling_for(model.preset)
        return Scheduler(model, params, self.limits, idle, self.notice)

    def _with_slots(self, bundle: Path, config: RunConfig) -> Model:
        """Open a model with the slots of ``config``; with one, and a notice, where it cannot have several."""
        try:
            return self.open_model(bundle, config)
        except UnsupportedError as error:
            if config.conversations is None or all(one.name != "conversations" for one in error.remedies):
                raise
            self.notice(f"{error.message}: its requests take turns")
        return self.open_model(bundle, replace(config, conversations=None))


def opener_of(store: Store, notice: Notice) -> OpenModel:
    """Return what opens models by the API, with what ``store`` keeps beside them.

    Named draft models must be installed.
    """

    def open_model(bundle: Path, config: RunConfig) -> Model:
        from edgedec import api
        from edgedec.assemble.prepare import Bundles
        from edgedec.drafters.registry import models_in

        drafts = {name: store.path(name) for name in models_in(config.drafters)}
        return api.open(Bundles(bundle, drafts), config, store=store, notice=notice)

    return open_model
