"""Meters of macOS and Windows, on stand-ins for their commands and calls."""

from __future__ import annotations

import ctypes
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from edgedec.system import windows_power
from edgedec.system.power import Battery, samples
from edgedec.telemetry.energy import NoMeter, battery, open_meter, opening
from edgedec.telemetry.energy.meter import Refused
from edgedec.telemetry.energy.powermetrics import PowermetricsMeter
from tests.patience import PATIENCE_S
from tests.system.standing_in import filled, library

HEAD = "*** Sampled system activity (Sun Nov 29 12:00:00 2026 +0000) ({:.2f}ms elapsed) ***\n\n"
APPLE = "CPU Power: 900 mW\nGPU Power: 100 mW\nANE Power: 0 mW\nCombined Power (CPU + GPU + ANE): {} mW\n"
INTEL = "Intel energy model derived package power (CPUs+GT+SA): {}W\n"


def writing(*samples: str, ends: bool = False) -> list[str]:
    """A command that writes these samples at once, and then waits."""
    code = "import sys, time\nfor one in sys.argv[1:]:\n    print(one, flush=True)\n"
    return [sys.executable, "-c", code + ("" if ends else "time.sleep(600)"), *samples]


def settled(meter: PowermetricsMeter, joules: float) -> bool:
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until and meter.read()["processor"] < joules - 1e-9:
        time.sleep(0.01)
    return meter.read() == {"processor": pytest.approx(joules)}


@pytest.mark.parametrize(
    ("text", "values", "watts"), [(APPLE, (1000, 2000, 4000), 4.0), (INTEL, (9, 5, 3.5), 3.5)]
)
def test_samples_are_summed_from_the_second_on(text: str, values: tuple[float, ...], watts: float) -> None:
    samples = [HEAD.format(500.0) + text.format(value) for value in values]
    meter = PowermetricsMeter(writing(*samples), lambda: True, lambda: 0.0)
    scale = 1e-3 if text is APPLE else 1.0
    assert settled(meter, 0.5 * scale * (values[1] + values[2]))
    assert meter.watts() == watts
    assert meter.source.startswith("powermetrics")
    assert meter.interruptions == 0


def test_the_command_ends_with_its_meter() -> None:
    meter = PowermetricsMeter(writing(HEAD.format(1) + APPLE.format(1)), lambda: True, lambda: 0.0)
    process: subprocess.Popen[str] = meter._process
    del meter
    assert process.wait(PATIENCE_S) != 0


@pytest.mark.parametrize(
    ("command", "allowed", "reason"),
    [
        ([], False, "`sudo` before the command"),
        (["/nonexistent/powermetrics"], True, "cannot be run"),
        (writing("*** nothing is known ***", ends=True), True, "tells no power"),
    ],
)
def test_what_stands_in_the_way_is_said(
    command: list[str], allowed: bool, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edgedec.telemetry.energy.powermetrics._PATIENCE_S", 0.5)
    with pytest.raises(Refused, match=reason):
        PowermetricsMeter(command, lambda: allowed, lambda: 0.0)


def test_a_command_that_ended_gives_no_reading() -> None:
    meter = PowermetricsMeter(writing(HEAD.format(1) + APPLE.format(1)), lambda: True, lambda: 0.0)
    meter._process.kill()
    meter._process.wait()
    with pytest.raises(Refused, match="has ended"):
        meter.read()


def test_a_mac_has_this_meter_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "samples", lambda: False)
    found = open_meter()
    assert isinstance(found, NoMeter)
    assert found.reason.startswith("powermetrics: ")
    assert ";" not in found.reason.replace("run it; `sudo`", "")
    monkeypatch.undo()
    assert samples() is None  # tests run on Linux


def state(monkeypatch: pytest.MonkeyPatch, **values: int) -> None:
    def answer(number: int, given: None, size: int, place: Any, room: ctypes.c_uint32) -> int:
        assert (number, given, size, room.value) == (5, None, 0, 32)
        filled(place, windows_power._State, **values)
        return 0

    library(monkeypatch, "powrprof", CallNtPowerInformation=answer)


def test_windows_tells_its_batteries(monkeypatch: pytest.MonkeyPatch) -> None:
    state(monkeypatch, present=1, discharging=1, left_mwh=40_000, rate_mw=-7500)
    assert windows_power.battery_state() == (True, 40_000, 7500)
    state(monkeypatch, present=0)
    assert windows_power.battery_state() is None


def test_the_charge_of_windows_batteries_is_counted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def told() -> Battery | None:
        found = windows_power.battery_state()
        return found and Battery(*found)

    monkeypatch.setattr(battery, "battery", told)
    state(monkeypatch, present=1, discharging=1, left_mwh=40_000, rate_mw=-7500)
    meter = open_meter(tmp_path)
    assert isinstance(meter, battery.BatteryMeter)
    assert meter.read() == {"all": 0.0}
    assert meter.watts() == pytest.approx(7.5)
    state(monkeypatch, present=1, discharging=1, left_mwh=39_990, rate_mw=-7500)
    assert meter.read() == {"all": pytest.approx(36.0)}
    state(monkeypatch, present=1, charging=1, left_mwh=39_995, rate_mw=9000)
    assert meter.read() == {"all": pytest.approx(36.0)}
    assert meter.interruptions == 1
    state(monkeypatch, present=0)
    with pytest.raises(Refused, match="has none"):
        meter.read()


def test_windows_tells_how_long_the_machine_slept(monkeypatch: pytest.MonkeyPatch) -> None:
    def awake(place: Any) -> int:
        ctypes.cast(place, ctypes.POINTER(ctypes.c_uint64)).contents.value = 90 * 10**7
        return 1

    library(monkeypatch, "kernel32", GetTickCount64=lambda: 100_500, QueryUnbiasedInterruptTime=awake)
    assert windows_power.asleep_s() == pytest.approx(10.5)
