"""Energy in joules: meters of this machine, and an estimate where there is none."""

from __future__ import annotations

from edgedec.telemetry.energy.estimate import EnergyEstimate, estimate
from edgedec.telemetry.energy.meter import Meter, NoMeter, Reading
from edgedec.telemetry.energy.opening import open_meter

__all__ = ["EnergyEstimate", "Meter", "NoMeter", "Reading", "estimate", "open_meter"]
