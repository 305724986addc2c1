"""Meters on counter trees as Linux shows them: wraps, missing rights, several packages, suspension."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from edgedec.disk.installing import pip_install
from edgedec.telemetry.energy import NoMeter, open_meter
from edgedec.telemetry.energy.battery import BatteryMeter
from edgedec.telemetry.energy.meter import Reading, Refused
from edgedec.telemetry.energy.nvidia import NvidiaMeter
from edgedec.telemetry.energy.rapl import RaplMeter

RANGE_UJ = 262_143_328_850
"""``max_energy_range_uj`` of many Intel processors."""


class Machine:
    """A tree of device files, and how long the machine has slept."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.asleep_s = 0.0

    def zone(self, folder: str, name: str, energy_uj: int = 0, most: int | None = RANGE_UJ) -> None:
        files: dict[str, str | int] = {"name": name, "energy_uj": energy_uj}
        if most is not None:
            files["max_energy_range_uj"] = most
        self.write(f"class/powercap/{folder}", files)

    def counts(self, folder: str, energy_uj: int) -> None:
        self.write(f"class/powercap/{folder}", {"energy_uj": energy_uj})

    def battery(self, **files: str | int) -> None:
        state = {"type": "Battery", "status": "Discharging", "voltage_now": 12_000_000}
        self.write("class/power_supply/BAT0", state | files)

    def write(self, folder: str, files: dict[str, str | int]) -> None:
        place = self.root / folder
        place.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            (place / name).write_text(f"{content}\n")

    def rapl(self) -> RaplMeter:
        return RaplMeter(self.root, lambda: self.asleep_s)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.fixture
def laptop(machine: Machine) -> Machine:
    """One package as a laptop shows it: its parts, the whole board, and the package a second time."""
    machine.zone("intel-rapl:0", "package-0", 1_000_000)
    machine.zone("intel-rapl:0:0", "core", 500_000)
    machine.zone("intel-rapl:0:1", "uncore", 100_000)
    machine.zone("intel-rapl:1", "psys", 5_000_000)
    machine.zone("intel-rapl-mmio:0", "package-0", 1_000_000)
    return machine


def test_joules_count_from_the_opening_of_the_meter(laptop: Machine) -> None:
    meter = laptop.rapl()
    assert meter.read() == {"package-0": 0.0}
    laptop.counts("intel-rapl:0", 3_500_000)
    assert meter.read() == {"package-0": pytest.approx(2.5)}


def test_parts_of_a_package_and_the_board_around_it_are_not_counted_twice(laptop: Machine) -> None:
    meter = laptop.rapl()
    for folder in ("intel-rapl:0:0", "intel-rapl:0:1", "intel-rapl:1", "intel-rapl-mmio:0"):
        laptop.counts(folder, 9_000_000)
    assert meter.read() == {"package-0": 0.0}


def test_a_board_without_packages_is_counted_itself(machine: Machine) -> None:
    machine.zone("intel-rapl:0", "psys", 10)
    assert machine.rapl().read() == {"psys": 0.0}


def test_several_packages_are_counted_each_with_its_memory(machine: Machine) -> None:
    for socket in (0, 1):
        machine.zone(f"intel-rapl:{socket}", f"package-{socket}")
        machine.zone(f"intel-rapl:{socket}:0", "dram", most=65_712_999_613)
    meter = machine.rapl()
    for folder, microjoules in (("0", 4e6), ("1", 3e6), ("0:0", 2e6), ("1:0", 1e6)):
        machine.counts(f"intel-rapl:{folder}", int(microjoules))
    assert meter.read() == {"package-0": 4.0, "package-1": 3.0, "dram-0": 2.0, "dram-1": 1.0}
    assert "memory" not in meter.source


def test_the_source_says_where_memory_is_not_counted(laptop: Machine) -> None:
    assert laptop.rapl().source == "RAPL (package-0; memory is not counted)"


def test_a_counter_that_went_round_goes_on(laptop: Machine) -> None:
    laptop.counts("intel-rapl:0", RANGE_UJ - 1_000_000)
    meter = laptop.rapl()
    laptop.counts("intel-rapl:0", 2_000_000)
    assert meter.read()["package-0"] == pytest.approx(3.0)
    laptop.counts("intel-rapl:0", 2_500_000)
    assert meter.read()["package-0"] == pytest.approx(3.5)


def test_a_smaller_counter_of_unknown_range_adds_nothing(machine: Machine) -> None:
    machine.zone("intel-rapl:0", "package-0", 5_000_000, most=None)
    meter = machine.rapl()
    machine.counts("intel-rapl:0", 1_000_000)
    assert meter.read()["package-0"] == 0.0
    machine.counts("intel-rapl:0", 1_500_000)
    assert meter.read()["package-0"] == pytest.approx(0.5)


def test_a_suspended_machine_that_reset_its_counter_did_not_wrap_it(laptop: Machine) -> None:
    laptop.counts("intel-rapl:0", 8_000_000)
    meter = laptop.rapl()
    laptop.asleep_s = 3600.0
    laptop.counts("intel-rapl:0", 1_000_000)
    assert meter.read()["package-0"] == 0.0
    assert meter.interruptions == 1
    laptop.counts("intel-rapl:0", 1_250_000)
    assert meter.read()["package-0"] == pytest.approx(0.25)
    assert meter.interruptions == 1, "it slept once"


def test_counters_for_root_alone_are_explained(laptop: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    read = Path.read_text

    def guarded(path: Path, *args: str, **kwargs: str) -> str:
        if path.name == "energy_uj":
            raise PermissionError(13, "Permission denied", str(path))
        return read(path, *args, **kwargs)

    monkeypatch.setattr(Path, "read_text", guarded)
    found = open_meter(laptop.root)
    assert isinstance(found, NoMeter)
    assert "only root may read" in found.reason
    assert "sudo chmod a+r" in found.reason


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_a_file_without_rights_is_refused(laptop: Machine) -> None:
    (laptop.root / "class/powercap/intel-rapl:0/energy_uj").chmod(0)
    with pytest.raises(Refused, match="only root"):
        laptop.rapl()


def test_a_counter_that_is_no_number_is_refused(laptop: Machine) -> None:
    laptop.write("class/powercap/intel-rapl:0", {"energy_uj": "nonsense"})
    with pytest.raises(Refused, match="cannot be read"):
        laptop.rapl()


def test_a_counter_that_vanishes_gives_no_reading(laptop: Machine) -> None:
    meter = laptop.rapl()
    assert Reading.of(meter) is not None
    (laptop.root / "class/powercap/intel-rapl:0/energy_uj").unlink()
    assert Reading.of(meter) is None


def test_without_any_source_every_refusal_is_said(tmp_path: Path) -> None:
    found = open_meter(tmp_path)
    assert isinstance(found, NoMeter)
    assert "no /sys/class/powercap" in found.refused[0]
    assert found.refused[1] == "battery: this system has none"


def test_the_processors_counters_come_before_the_battery(laptop: Machine) -> None:
    laptop.battery(energy_now=50_000_000)
    assert open_meter(laptop.root).source.startswith("RAPL")  # type: ignore[union-attr]


def test_a_battery_that_tells_energy_counts_what_is_gone(machine: Machine) -> None:
    machine.battery(energy_now=50_000_000)
    meter = open_meter(machine.root)
    assert isinstance(meter, BatteryMeter)
    machine.battery(energy_now=49_990_000)
    assert meter.read() == {"BAT0": pytest.approx(36.0)}  # 10 mWh


def test_a_battery_that_tells_charge_counts_it_at_its_voltage(machine: Machine) -> None:
    machine.battery(charge_now=4_000_000)
    meter = open_meter(machine.root)
    assert isinstance(meter, BatteryMeter)
    machine.battery(charge_now=3_999_000, voltage_now=11_000_000)
    assert meter.read() == {"BAT0": pytest.approx(1e-3 * 11.5 * 3600)}


def test_a_battery_that_is_charged_is_no_source(machine: Machine) -> None:
    machine.battery(energy_now=1, status="Charging")
    found = open_meter(machine.root)
    assert isinstance(found, NoMeter)
    assert "unplug the charger" in found.reason


def test_a_charger_in_between_is_an_interruption(machine: Machine) -> None:
    machine.battery(energy_now=50_000_000)
    meter = BatteryMeter(machine.root, lambda: 0.0)
    machine.battery(energy_now=49_000_000, status="Charging")
    assert meter.read() == {"BAT0": 0.0}
    machine.battery(energy_now=49_990_000)
    assert meter.read() == {"BAT0": 0.0}
    assert meter.interruptions == 2
    machine.battery(energy_now=49_980_000)
    assert meter.read() == {"BAT0": pytest.approx(36.0)}


def test_the_battery_of_a_mouse_is_not_the_devices(machine: Machine) -> None:
    machine.battery(energy_now=50, scope="Device")
    with pytest.raises(Refused, match="has none"):
        BatteryMeter(machine.root)


def test_a_battery_tells_its_power(machine: Machine) -> None:
    machine.battery(energy_now=50_000_000, power_now=7_500_000)
    assert BatteryMeter(machine.root).watts() == pytest.approx(7.5)
    (machine.root / "class/power_supply/BAT0/power_now").unlink()
    machine.battery(current_now=-500_000)
    assert BatteryMeter(machine.root).watts() == pytest.approx(6.0)


class Nvml:
    """NVIDIA's library with some GPUs, by the millijoules that they have counted."""

    class NVMLError(Exception):
        pass

    def __init__(self, *counts: int | None, fails: bool = False) -> None:
        self.counts = list(counts)
        self._fails = fails

    def nvmlInit(self) -> None:  # noqa: N802
        if self._fails:
            raise self.NVMLError("Driver Not Loaded")

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return len(self.counts)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:  # noqa: N802
        return index

    def nvmlDeviceGetTotalEnergyConsumption(self, handle: int) -> int:  # noqa: N802
        if (count := self.counts[handle]) is None:
            raise self.NVMLError("Not Supported")
        return count


def test_gpus_are_counted_each(machine: Machine) -> None:
    nvml = Nvml(1_000, 2_000)
    meter = NvidiaMeter(nvml, lambda: 0.0)
    nvml.counts = [1_500, 4_000]
    assert meter.read() == {"gpu-0": pytest.approx(0.5), "gpu-1": pytest.approx(2.0)}


@pytest.mark.parametrize(
    ("nvml", "reason"),
    [(Nvml(fails=True), "does not answer"), (Nvml(), "no GPU"), (Nvml(None), "does not count energy")],
)
def test_gpus_that_cannot_be_measured_say_why(nvml: Nvml, reason: str) -> None:
    with pytest.raises(Refused, match=reason):
        NvidiaMeter(nvml)


def test_the_missing_library_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pynvml", None)
    found = open_meter(gpu=True)
    assert isinstance(found, NoMeter)
    assert pip_install("nvidia") in found.reason
