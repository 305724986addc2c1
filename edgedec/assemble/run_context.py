"""The context of a run: a folder to keep things in, somebody to tell, a clock."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import field
from pathlib import Path

from edgedec.core.cache_config import KvType
from edgedec.core.progress import Notice, ignore
from edgedec.core.quick_dataclass import dataclass
from edgedec.decode.records import PassRecord
from edgedec.loaded_model import LoadedModel
from edgedec.metrics.measures import Measures, traffic_of
from edgedec.metrics.stats import Clock
from edgedec.metrics.traffic import Traffic
from edgedec.telemetry.energy import Meter, NoMeter, open_meter


@dataclass(frozen=True, slots=True)
class RunContext:
    """A folder, a listener and a clock for a run.

    ``home`` is the folder that keeps pass costs and draft history; None keeps nothing. ``notice`` gets lines
    for the user. ``clock`` gives seconds. ``observe`` sees a record of every pass of the engine. ``meter``
    opens the energy meter of this machine. ``known`` finds an installed draft model that is known to suit the
    target in a bundle.
    """

    home: Path | None = None
    notice: Notice = field(default=ignore)
    clock: Clock = time.perf_counter
    observe: Callable[[PassRecord], None] | None = None
    meter: Callable[[], Meter | NoMeter] = open_meter
    known: Callable[[Path], Path | None] = field(default=lambda bundle: None)

    @property
    def costs(self) -> Path | None:
        """The folder with what was measured on this machine."""
        return self.home / "costs" if self.home else None

    def measures(self, model: LoadedModel, kv: KvType | None, small: Traffic | None = None) -> Measures:
        """Gather the facts about ``model`` with a cache of kind ``kv``, and open the energy meter.

        ``small``: the traffic of the small model that takes turns with it.
        """
        meter = self.meter()
        return Measures(
            traffic_of(model.spec, model.backend.weight_bytes, kv),
            None if isinstance(meter, NoMeter) else meter,
            meter.reason if isinstance(meter, NoMeter) else "",
            self.costs,
            model.threads,
            model.spec.window,
            small,
        )
