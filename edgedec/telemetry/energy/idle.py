"""Idle power: the watts that a meter shows while nothing computes; measured in a second, and kept."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from edgedec.core.errors import StorageError
from edgedec.core.quick_dataclass import dataclass
from edgedec.disk.files import atomic_path
from edgedec.telemetry.energy.meter import Meter, Reading

IDLE_S = 1.0
_SAMPLES = 5
_KEPT_FOR_S = 86_400.0


@dataclass(frozen=True, slots=True)
class IdlePower:
    """Watts of ``source`` without work, measured over ``seconds`` at the time ``at`` (since 1970)."""

    source: str
    watts: float
    at: float
    seconds: float


def measure_idle(
    meter: Meter, *, clock: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep
) -> IdlePower | None:
    """Wait for a second and return the power meanwhile. Call it while nothing computes.

    None when the meter was interrupted or stood still. A meter that is too slow for that is asked for its
    power at some moments of the second.
    """
    if meter.least_s > IDLE_S:
        found = []
        for _ in range(_SAMPLES):
            sleep(IDLE_S / _SAMPLES)
            found.append(meter.watts())
        powers = [one for one in found if one is not None]
        watts = sum(powers) / len(powers) if powers else None
    else:
        before = Reading.of(meter, clock)
        sleep(IDLE_S)
        after = Reading.of(meter, clock)
        watts = _power(before, after)
    return IdlePower(meter.source, watts, time.time(), IDLE_S) if watts else None


def _power(before: Reading | None, after: Reading | None) -> float | None:
    if not before or not after or before.interruptions != after.interruptions:
        return None
    return (after.joules - before.joules) / (after.at_s - before.at_s)


def known_idle(meter: Meter, file: Path | None, now: Callable[[], float] = time.time) -> IdlePower | None:
    """Return the idle power of ``meter`` as ``file`` keeps it for a day, or measure it and keep it."""
    kept = _read(file) if file else None
    if kept and kept.source == meter.source and 0.0 <= now() - kept.at < _KEPT_FOR_S:
        return kept
    found = measure_idle(meter)
    if found and file:
        with suppress(StorageError), atomic_path(file) as temporary:
            temporary.write_text(json.dumps(asdict(found)), encoding="utf-8", newline="\n")
    return found


def _read(file: Path) -> IdlePower | None:
    try:
        found = IdlePower(**json.loads(file.read_text(encoding="utf-8")))
        return found if found.watts >= 0.0 <= found.at else None
    except (OSError, ValueError, TypeError):
        return None
