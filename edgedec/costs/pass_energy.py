"""The power of a model's passes, measured with a meter of this machine."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from edgedec.control import Costs, EnergyCosts
from edgedec.core.errors import Remedy, StorageError, UnsupportedError
from edgedec.core.forward import Forward
from edgedec.core.progress import Notice
from edgedec.core.rows import ALL_ROWS
from edgedec.costs.cost_file import CostFile
from edgedec.costs.pass_costs import LONGEST_TOKENS, sizes_up_to
from edgedec.disk.files import atomic_path
from edgedec.metrics.measures import IDLE_FILE, Measures
from edgedec.telemetry.energy import Meter, Reading
from edgedec.telemetry.energy.idle import known_idle

_LEAST_S = 0.3
"""Passes over one number of tokens are repeated for so long, and longer for a slow meter."""
_SLOWEST_METER_S = 1.0
_KEPT = ".energy.json"
"""Ending of the file beside the pass costs."""


class PassEnergy:
    """The watts of passes by their tokens, and the meter that measured them."""

    def __init__(self, watts: Mapping[int, float], source: str) -> None:
        self.watts, self.source = watts, source

    def costs(self, curve: Costs) -> EnergyCosts:
        """Return the costs in joules of passes that take the seconds of ``curve``."""
        return EnergyCosts(curve, self.watts)

    def notice(self) -> str:
        """Return one line: whose joules drafts are planned with."""
        return f"drafts are planned for joules a token, measured by {self.source}"


def pass_energy(forward: Forward, measures: Measures, file: CostFile | None, notice: Notice) -> PassEnergy:
    """Return the power of passes of ``forward``; measured ones are kept beside ``file``.

    Measuring takes a few seconds, once, and empties the KV cache; ``notice`` hears of it. Raises
    UnsupportedError where no meter tells passes apart: the estimate has no power that flows with time, so it
    would favour long drafts.
    """
    meter = measures.meter
    if meter is None:
        raise _unmeasured(measures.refused)
    if meter.least_s > _SLOWEST_METER_S:
        raise _unmeasured(f"{meter.source} is too slow to tell passes apart")
    kept = file.path.with_suffix(_KEPT) if file else None
    watts = _read(kept, meter.source) if kept else None
    if watts is None:
        notice(f"measuring what passes of {forward.spec.name} draw from {meter.source}, once")
        idle = known_idle(meter, measures.folder / IDLE_FILE if measures.folder else None)
        watts = measured_watts(forward, meter, idle.watts if idle else 0.0)
        if watts is None:
            raise _unmeasured(f"{meter.source} shows no work")
        if kept:
            _keep(kept, meter.source, watts)
    return PassEnergy(watts, meter.source)


def measured_watts(forward: Forward, meter: Meter, idle_w: float) -> dict[int, float] | None:
    """Return the watts above ``idle_w`` of passes by their tokens; None where the meter shows no more."""
    watts = {}
    for size in (size for size in sizes_up_to(LONGEST_TOKENS, forward) if size.bit_count() == 1):
        before = now = Reading.of(meter)
        while before and now and now.at_s - before.at_s < max(_LEAST_S, 5.0 * meter.least_s):
            forward.rewind(0)
            forward.extend([0] * size, rows=ALL_ROWS)
            now = Reading.of(meter)
        if not before or not now or now.interruptions != before.interruptions:
            return None
        watts[size] = (now.joules - before.joules) / (now.at_s - before.at_s) - idle_w
    forward.rewind(0)
    return watts if min(watts.values()) > 0.0 else None


def _unmeasured(reason: str) -> UnsupportedError:
    message = f"drafts cannot be planned for energy without a meter: {reason}"
    return UnsupportedError(message, hint="aim at time", remedy=Remedy("objective"))


def _read(file: Path, source: str) -> dict[int, float] | None:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        watts = {int(tokens): float(power) for tokens, power in found["watts"].items()}
        return watts if found["source"] == source and 1 in watts and min(watts.values()) > 0.0 else None
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def _keep(file: Path, source: str, watts: Mapping[int, float]) -> None:
    with suppress(StorageError), atomic_path(file) as temporary:
        temporary.write_text(json.dumps({"source": source, "watts": watts}), encoding="utf-8", newline="\n")
