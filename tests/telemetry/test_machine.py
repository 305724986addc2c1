from __future__ import annotations

import subprocess
import sys
import time

import pytest

from edgedec.core.errors import BackendError
from edgedec.telemetry import machine, process
from edgedec.telemetry.bandwidth import Bandwidth, measure

CPUINFO = """\
processor\t: 0
model name\t: Imaginary CPU 9000
flags\t\t: fpu sse4_2 avx2 fma avx_vnni

processor\t: 1
model name\t: Imaginary CPU 9000
flags\t\t: fpu sse4_2 avx2 fma avx_vnni
"""
ARM = "processor\t: 0\nBogoMIPS\t: 50.00\nFeatures\t: fp asimd asimddp i8mm\nHardware\t: Imaginary Phone\n"


def test_cpuinfo_of_x86_and_arm() -> None:
    assert machine.cpu_name(CPUINFO) == "Imaginary CPU 9000"
    assert machine.cpu_features(CPUINFO) == ("sse4_2", "fma", "avx2", "avx_vnni")
    assert machine.cpu_name(ARM) == "Imaginary Phone"
    assert machine.cpu_features(ARM) == ("asimd", "asimddp", "i8mm")
    assert (machine.cpu_name(""), machine.cpu_features("")) == ("", ())


def test_meminfo() -> None:
    text = "MemTotal:        8000 kB\nMemAvailable:    6000 kB\n"
    assert machine.meminfo_bytes(text, "MemAvailable") == 6000 * 1024
    assert machine.meminfo_bytes(text, "SwapTotal") is None


def test_this_machine() -> None:
    here = machine.describe()
    assert 1 <= here.cores <= here.logical_cpus
    assert here.memory_bytes is None or here.memory_bytes > 100_000_000
    assert here.cpu
    assert here.as_json()["features"] == list(here.features)


def test_the_age_of_a_process_includes_the_interpreters_start() -> None:
    code = "import time; time.sleep(0.3); from edgedec.telemetry.process import age_s; print(age_s())"
    begun = time.monotonic()
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    elapsed = time.monotonic() - begun
    assert float(done.stdout) <= elapsed + 0.02
    if sys.platform == "linux":
        assert float(done.stdout) >= 0.28


def test_the_age_is_read_behind_a_name_with_parentheses() -> None:
    fields = ["S", *(str(number) for number in range(4, 22)), "250", "0"]
    stat = f"42 (odd) name) {' '.join(fields)}"
    assert process._age_from_stat(stat, uptime_s=10.0, ticks_per_s=100) == pytest.approx(7.5)


def test_peak_memory_grows_with_what_is_held() -> None:
    code = (
        "from edgedec.telemetry.process import peak_rss_bytes as peak\n"
        "before = peak(); block = b'x' * 80_000_000; print(before, peak())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    before, after = map(int, done.stdout.split())
    assert 60_000_000 < after - before < 200_000_000


def test_bandwidth_is_the_best_reading_of_each_thread_count() -> None:
    readings = {1: [3.0, 5.0, 4.0], 4: [9.0, 8.0, 7.0]}
    asked = []

    def read(size: int, threads: int) -> float:
        asked.append((size, threads))
        return readings[threads].pop(0)

    assert measure(read, (4, 1, 4), size=100) == [Bandwidth(1, 5.0), Bandwidth(4, 9.0)]
    assert asked == [(100, 1)] * 3 + [(100, 4)] * 3


@pytest.mark.parametrize("reading", [0.0, -1.0, float("nan")])
def test_a_failed_reading_is_an_error(reading: float) -> None:
    with pytest.raises(BackendError, match="bandwidth"):
        measure(lambda size, threads: reading, (1,))
