"""Opens a model with its slots, beside those that are open."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from edgedec.core.cache_config import CacheConfig
from edgedec.core.errors import MemoryBudgetError, UnsupportedError
from edgedec.core.progress import Notice
from edgedec.core.quick_dataclass import dataclass
from edgedec.sampling import DrawParams
from edgedec.server.work.catalogue import Served, weight_bytes
from edgedec.server.work.scheduler import Scheduler

if TYPE_CHECKING:
    from edgedec.api import Model
    from edgedec.assemble.config import RunConfig
    from edgedec.models import Store
    from edgedec.server.work.request import QueueLimits
    from edgedec.server.work.room import GpuRoom, ModelRoom

OpenModel = Callable[[Path, "RunConfig"], "Model"]
"""Opens the model of a bundle."""
WHOLE_ROWS = DrawParams(temperature=1.0, top_p=0.9, repetition_penalty=1.1, typical=0.95)
"""Draws that take the most memory: requests may name any sampling, so plans have room for it."""


@dataclass(frozen=True, slots=True)
class SchedulerOpener:
    """Opens models that all run as ``config`` says.

    ``room`` and ``gpu_room`` are budgets that they share, of the process and of its GPU.
    """

    config: RunConfig
    limits: QueueLimits
    open_model: OpenModel
    room: ModelRoom | None
    gpu_room: GpuRoom
    notice: Notice

    def may_open(self, bundle: Path, others: int, *, idle: bool) -> bool:
        """Return whether it is worth while to try to open a model beside ``others`` more.

        ``idle``: whether one of these can be closed at once.
        """
        if self.room:
            return not idle or self.room.fits(weight_bytes(bundle))
        return others < self.limits.models

    def opened(self, served: Served, idle: Callable[[], None]) -> Scheduler:
        """Open a model; ``idle`` is that of its scheduler.

        Raises NoRoomBeside, MemoryBudgetError where it does not fit alone either, the errors of ``api.open``.
        """
        config, name = replace(self.config, lora=served.lora), served.name
        if self.room:
            rule = self.room.rule(elastic=config.context is None)
            config = replace(config, memory=rule, sampling=WHOLE_ROWS, structured=True)
        model = self._beside(served.path, config)
        if self.room and model.budget:
            self.room.opened(name, model.budget.plan)
        on_gpu = model.loaded.backend.device_bytes(CacheConfig(model.context, model.runner.kv))
        self.gpu_room.opened(name, sum(on_gpu.values()))
        if on_gpu:
            self.notice(f"{name} runs on {model.loaded.isa}")
        params = self.config.sampling_for(model.preset)
        return Scheduler(model, params, self.limits, idle, self.notice)

    def closed(self, name: str) -> None:
        """Count a model no more; its memory was released."""
        self.gpu_room.closed(name)
        if self.room:
            self.room.closed(name)

    def _beside(self, bundle: Path, config: RunConfig) -> Model:
        """Open a model in what those that are open leave of the GPU."""
        left = self.gpu_room.left
        if left == self.gpu_room.budget:
            return self._with_slots(bundle, config)
        try:
            return self._with_slots(bundle, replace(config, device_memory=left))
        except MemoryBudgetError as error:
            self.gpu_room.refuse(error)
        return self._with_slots(bundle, config)  # is refused, with the whole bound in its words

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
