"""Joules of single passes: measured where the meter is quick enough, and else estimated, never both."""

from __future__ import annotations

import pytest

from edgedec.bench.harness.energy import EnergyProbe
from edgedec.bench.studies.pass_energies import PassEnergies
from edgedec.metrics.mbsu import Weights
from edgedec.metrics.traffic import Traffic
from edgedec.telemetry.energy import NoMeter, estimate

TRAFFIC = Traffic(Weights(1000.0), slot_bytes=10, window_slot_bytes=2, products=500)


class Watts:
    """A meter that counts ten watts of the seconds that passes take, or stands still."""

    source, least_s, interruptions = "watts", 1.0, 0

    def __init__(self, power: float = 10.0) -> None:
        self.now, self._power = 0.0, power

    def clock(self) -> float:
        return self.now

    def read(self) -> dict[str, float]:
        return {"all": self._power * self.now}

    def watts(self) -> float | None:
        return None

    def work(self, seconds: float) -> float:
        self.now += seconds
        return seconds


def passes(meter: Watts) -> PassEnergies:
    """Three rounds of passes over 1 and 4 tokens; the first ones take ten times as long."""
    energies = PassEnergies(EnergyProbe(meter, meter.clock))
    for first in (10.0, 1.0, 1.0):
        assert energies.around(1, lambda first=first: meter.work(0.5 * first)) == 0.5 * first  # type: ignore[misc]
        energies.around(4, lambda first=first: meter.work(0.8 * first))  # type: ignore[misc]
    return energies


@pytest.fixture(autouse=True)
def no_idle_power(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgedec.bench.harness.energy.measure_idle", lambda meter: None)


def test_a_meter_gives_joules_a_token_without_the_first_passes() -> None:
    found = passes(Watts()).found(TRAFFIC, 20, 0)
    assert not found.estimated
    assert found.by_side["1"].joules == pytest.approx(5.0)
    assert found.by_side["4"].joules == pytest.approx(8.0 / 4)


def test_a_meter_that_stands_still_leaves_an_estimate_for_all() -> None:
    found = passes(Watts(power=0.0)).found(TRAFFIC, 20, 0)
    assert found.estimated
    assert "watts" in found.reason


def test_an_estimate_is_that_of_the_bytes_and_operations_of_a_pass() -> None:
    energies = PassEnergies(EnergyProbe(NoMeter(("none here",))))
    for tokens in (1, 4):
        assert energies.around(tokens, lambda: 0.25) == 0.25
    found = energies.found(TRAFFIC, 20, 8)
    by_hand = estimate(1000 + 10 * 24 + 2 * 8, 2 * 4 * 500)
    assert found.by_side["4"].joules == pytest.approx(by_hand.joules / 4)
    assert found.by_side["4"].joules < found.by_side["1"].joules
    assert found.reason == "none here"
