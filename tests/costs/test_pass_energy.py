"""The power of passes: measured with a meter and kept; without a meter nothing aims at energy."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from edgedec.assemble.config import RunConfig
from edgedec.assemble.run_context import RunContext
from edgedec.assemble.runner import Runner
from edgedec.core.errors import UnsupportedError, UsageError
from edgedec.costs.pass_energy import PassEnergy
from edgedec.telemetry.energy import Meter, NoMeter
from edgedec.telemetry.energy.idle import IdlePower
from tests.fixtures.tiny_models import prepared_run
from tests.telemetry.test_energy_estimate import FakeMeter


class Busy(FakeMeter):
    """Draws the power of all time that goes by."""

    def __init__(self, power: float, **facts: float) -> None:
        super().__init__(power, **facts)  # type: ignore[arg-type]
        self.reads = 0

    def read(self) -> dict[str, float]:
        self.reads += 1
        return {"all": self.power * time.monotonic()}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgedec.costs.pass_energy._LEAST_S", 0.005)

    def idle(meter: Meter, file: Path | None) -> IdlePower:
        return IdlePower("fake", 2.0, 0.0, 1.0)

    monkeypatch.setattr("edgedec.costs.pass_energy.known_idle", idle)


def runner(bundle: Path, home: Path, meter: Meter | NoMeter, said: list[str]) -> Runner:
    config = RunConfig(threads=1, context=256, draft="lookup", objective="energy")
    around = RunContext(home, said.append, meter=lambda: meter)
    return Runner(prepared_run(bundle, config, around))


def energy_of(made: Runner) -> PassEnergy:
    assert made.pass_energy is not None
    return made.pass_energy


def test_with_a_meter_the_power_of_passes_is_measured_above_idle_and_kept(
    bundle: Path, tmp_path: Path
) -> None:
    said: list[str] = []
    first = Busy(10.0, least_s=0.001)
    found = energy_of(runner(bundle, tmp_path, first, said))
    assert found.source == "fake"
    assert set(found.watts) == {1, 2, 4, 8, 16}
    assert list(found.watts.values()) == pytest.approx([8.0] * 5, rel=0.02)
    assert any("measured by fake" in line for line in said)
    again = Busy(10.0, least_s=0.001)
    assert energy_of(runner(bundle, tmp_path, again, said)).watts == found.watts
    assert again.reads == 0
    for file in (tmp_path / "costs").glob("*.energy.json"):
        file.write_text(json.dumps({"source": "another", "watts": {"1": 1.0}}))
    assert energy_of(runner(bundle, tmp_path, again, said)).watts[1] == pytest.approx(8.0, rel=0.02)
    assert again.reads > 0


@pytest.mark.parametrize(
    ("meter", "reason"),
    [
        (NoMeter(("none here",)), "none here"),
        (FakeMeter(5.0, least_s=60.0), "too slow to tell passes apart"),
        (Busy(1.0, least_s=0.001), "shows no work"),
    ],
)
def test_without_one_nothing_is_estimated_in_its_place(
    bundle: Path, tmp_path: Path, meter: Meter | NoMeter, reason: str
) -> None:
    with pytest.raises(UnsupportedError, match=f"without a meter: .*{reason}"):
        runner(bundle, tmp_path, meter, [])


def test_time_is_the_default_and_needs_no_power(bundle: Path) -> None:
    made = Runner(prepared_run(bundle, RunConfig(threads=1, context=256, draft="lookup")))
    assert made.objective == "time"
    assert made.pass_energy is None


def test_aims_that_do_not_exist_and_batches_are_refused() -> None:
    with pytest.raises(UsageError, match="aim at 'money'"):
        RunConfig(objective="money")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="several conversations"):
        RunConfig(objective="energy", conversations=2)


def test_tokens_are_the_same_by_either_aim(bundle: Path, tmp_path: Path) -> None:
    from edgedec.sampling import DrawParams

    said: list[list[int]] = []
    for objective in ("time", "energy"):
        config = RunConfig(threads=1, context=256, draft="lookup", objective=objective)  # type: ignore[arg-type]
        around = RunContext(tmp_path, meter=lambda: Busy(10.0, least_s=0.001))
        engine = Runner(prepared_run(bundle, config, around)).engine
        prompt = [5, 6, 7, 8] * 5
        steps = engine.generate(prompt, DrawParams(), max_tokens=24, stop_ids=())
        said.append([step.token for step in steps])
    assert said[0] == said[1]
