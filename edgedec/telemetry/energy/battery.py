"""The discharge of a battery, from Linux's /sys/class/power_supply, or as Windows tells it.

It covers all of the device, its display too, and counts only while nothing charges it. Gauges move in steps
of some joules and seconds: a reply is too short for them, the sum of a study is not.
See ``Documentation/ABI/testing/sysfs-class-power`` of Linux.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from edgedec.system.linux_texts import DEVICES, text_of
from edgedec.system.power import Battery, battery
from edgedec.telemetry.energy.meter import Refused, SleepWatch

_JOULES_PER_MICROWATT_HOUR = 3.6e-3
_MICRO = 1e-6


class _Cell:
    """One battery. Raises Refused when it tells no charge."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.name = folder, folder.name
        self._energy, self._charge, self._volts = self._state()
        self.joules = 0.0

    @property
    def discharging(self) -> bool:
        return text_of(self.folder / "status").strip() == "Discharging"

    def advance(self, *, counts: bool) -> float:
        """Read it; return the joules it gave so far. Without ``counts`` the time since then gave none."""
        energy, charge, volts = self._state()
        if self._energy is not None and energy is not None:
            gone = (self._energy - energy) * _JOULES_PER_MICROWATT_HOUR
        else:
            mean = (volts + self._volts) / 2.0
            gone = ((self._charge or 0) - (charge or 0)) * _JOULES_PER_MICROWATT_HOUR * mean
        self._energy, self._charge, self._volts = energy, charge, volts
        self.joules += max(gone, 0.0) if counts else 0.0
        return self.joules

    def watts(self) -> float | None:
        """Return the power that it gives now."""
        if (power := _number(self.folder / "power_now")) is not None:
            return abs(power) * _MICRO
        amperes, volts = (_number(self.folder / name) for name in ("current_now", "voltage_now"))
        return None if amperes is None or volts is None else abs(amperes) * volts * _MICRO * _MICRO

    def _state(self) -> tuple[int | None, int | None, float]:
        """Return the energy in µWh, the charge in µAh and the voltage in V."""
        energy, charge = (_number(self.folder / name) for name in ("energy_now", "charge_now"))
        volts = _number(self.folder / "voltage_now")
        if energy is None and (charge is None or volts is None):
            raise Refused(f"battery: {self.folder.name} tells neither its energy nor its charge")
        return energy, charge, (volts or 0) * _MICRO


class _ToldCell(_Cell):
    """All batteries together, as Windows tells them. Raises Refused when there is none any more."""

    def __init__(self) -> None:
        self.name = "all"
        self._energy, self._charge, self._volts = self._state()
        self.joules = 0.0

    @property
    def discharging(self) -> bool:
        return self._told().discharging

    def watts(self) -> float:
        """Return the power that they give now."""
        return self._told().gives_mw * 1e-3

    def _state(self) -> tuple[int | None, int | None, float]:
        return self._told().left_mwh * 1000, None, 0.0

    def _told(self) -> Battery:
        if (found := battery()) is None:
            raise Refused("battery: this system has none")
        return found


class BatteryMeter:
    """All batteries of this device. Raises Refused without one, and while none discharges."""

    least_s = 60.0

    def __init__(self, sys: Path = DEVICES, asleep: Callable[[], float] | None = None) -> None:
        self._cells: list[_Cell] = [_Cell(one) for one in _batteries(sys / "class" / "power_supply")]
        if battery() is not None:
            self._cells = [_ToldCell()]
        if not self._cells:
            raise Refused("battery: this system has none")
        if not self._discharging():
            raise Refused("battery: it is not discharging; unplug the charger to measure with it")
        self._watch = SleepWatch(asleep)
        self._on = True
        self.interruptions = 0
        self.source = f"battery ({', '.join(one.name for one in self._cells)}; the whole device)"

    def read(self) -> dict[str, float]:
        """See ``Meter.read``."""
        on, slept = self._discharging(), self._watch.slept()
        counts = on and self._on and not slept
        self.interruptions += not counts
        self._on = on
        return {one.name: one.advance(counts=counts) for one in self._cells}

    def watts(self) -> float | None:
        """Return the power that the batteries give now; None where they do not tell."""
        found = [power for one in self._cells if (power := one.watts()) is not None]
        return sum(found) if found else None

    def _discharging(self) -> bool:
        return any(one.discharging for one in self._cells)


def _batteries(folder: Path) -> list[Path]:
    """Return the device's own batteries, without those of a mouse or keyboard."""
    found = sorted(folder.iterdir()) if folder.is_dir() else []
    own = (one for one in found if text_of(one / "type").strip() == "Battery")
    return [one for one in own if text_of(one / "scope").strip() != "Device"]


def _number(file: Path) -> int | None:
    try:
        return int(text_of(file).strip())
    except ValueError:
        return None
