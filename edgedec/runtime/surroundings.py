"""The surroundings of a run: a folder to keep things in, somebody to tell, a clock."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from edgedec.core.progress import Notice, ignore
from edgedec.decode.records import PassRecord
from edgedec.telemetry.energy import Meter, NoMeter, open_meter
from edgedec.telemetry.stats import Clock


@dataclass(frozen=True, slots=True)
class Surroundings:
    """A folder, a listener and a clock for a run.

    ``home`` is the folder that keeps pass costs and draft history; None keeps nothing. ``notice`` gets lines
    for the user. ``clock`` gives seconds. ``observe`` sees a record of every pass of the engine. ``meter``
    opens the energy meter of this machine.
    """

    home: Path | None = None
    notice: Notice = field(default=ignore)
    clock: Clock = time.perf_counter
    observe: Callable[[PassRecord], None] | None = None
    meter: Callable[[], Meter | NoMeter] = open_meter
