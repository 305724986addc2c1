"""The estimate is linear in bytes and operations; idle power is measured shortly and kept with its time."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgedec.telemetry.energy import estimate
from edgedec.telemetry.energy.idle import IdlePower, known_idle, measure_idle


class FakeMeter:
    """Uses ``power`` watts of the time that its own clock shows."""

    def __init__(self, power: float, *, least_s: float = 0.02, source: str = "fake") -> None:
        self.source, self.least_s, self.interruptions = source, least_s, 0
        self.power = power
        self.now = 0.0

    def read(self) -> dict[str, float]:
        return {"all": self.power * self.now}

    def watts(self) -> float | None:
        return self.power

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def test_the_estimate_is_linear_in_bytes() -> None:
    one, ten = estimate(1e9, 0.0), estimate(1e10, 0.0)
    for name in ("low", "high", "joules"):
        assert getattr(ten, name) == pytest.approx(10.0 * getattr(one, name))
    assert estimate(0.0, 0.0).joules == 0.0


def test_the_estimate_is_linear_in_operations() -> None:
    assert estimate(0.0, 6e9).joules == pytest.approx(3.0 * estimate(0.0, 2e9).joules)


def test_bytes_by_hand() -> None:
    """0.87 GB at 80 and 160 pJ/byte are 69.6 and 139.2 mJ."""
    found = estimate(0.87e9, 0.0)
    assert (found.low, found.high) == (pytest.approx(0.0696), pytest.approx(0.1392))
    assert found.low < found.joules < found.high


def test_idle_power_is_the_power_of_an_idle_second() -> None:
    meter = FakeMeter(4.0)
    found = measure_idle(meter, clock=lambda: meter.now, sleep=meter.sleep)
    assert found is not None
    assert (found.watts, found.seconds, found.source) == (pytest.approx(4.0), 1.0, "fake")


def test_a_meter_too_slow_for_that_tells_its_power() -> None:
    meter = FakeMeter(6.0, least_s=60.0)
    found = measure_idle(meter, sleep=meter.sleep)
    assert found is not None
    assert found.watts == pytest.approx(6.0)


def test_a_meter_that_stands_still_has_no_idle_power() -> None:
    meter = FakeMeter(0.0)
    assert measure_idle(meter, clock=lambda: meter.now, sleep=meter.sleep) is None


def test_idle_power_is_kept_for_a_day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "idle.json"
    measured: list[float] = []

    def measure(meter: FakeMeter) -> IdlePower:
        measured.append(1.0)
        return IdlePower(meter.source, 3.0, at=1000.0, seconds=1.0)

    monkeypatch.setattr("edgedec.telemetry.energy.idle.measure_idle", measure)
    first = known_idle(FakeMeter(1.0), file, now=lambda: 1000.0)
    again = known_idle(FakeMeter(1.0), file, now=lambda: 2000.0)
    assert first == again
    assert len(measured) == 1
    known_idle(FakeMeter(1.0), file, now=lambda: 1000.0 + 90_000.0)
    known_idle(FakeMeter(1.0, source="another"), file, now=lambda: 2000.0)
    assert len(measured) == 3, "too old, and of another source"
    file.write_text("{damaged")
    assert known_idle(FakeMeter(1.0), file, now=lambda: 2000.0) is not None
