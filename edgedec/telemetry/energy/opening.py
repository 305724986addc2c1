"""The best energy meter of this machine."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from edgedec.system.linux_texts import DEVICES
from edgedec.system.power import samples
from edgedec.telemetry.energy.battery import BatteryMeter
from edgedec.telemetry.energy.meter import Meter, NoMeter, Refused
from edgedec.telemetry.energy.rapl import RaplMeter


def open_meter(sys: Path = DEVICES, *, gpu: bool = False) -> Meter | NoMeter:
    """Open the processor's counters, or else the battery's, or a Mac's samples; ``NoMeter`` says why not.

    ``gpu``: measure NVIDIA's GPUs instead. ``sys`` is the root of Linux's device files.
    """
    kinds: list[Callable[[], Meter]] = [partial(RaplMeter, sys), partial(BatteryMeter, sys)]
    if samples() is not None:
        from edgedec.telemetry.energy.powermetrics import PowermetricsMeter

        kinds = [PowermetricsMeter]
    if gpu:
        from edgedec.telemetry.energy.nvidia import NvidiaMeter

        kinds = [NvidiaMeter]
    refused = []
    for kind in kinds:
        try:
            return kind()
        except Refused as reason:
            refused.append(str(reason))
    return NoMeter(tuple(refused))
