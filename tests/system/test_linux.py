"""Facts that Linux tells about this process and the machine."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from edgedec.system import process
from edgedec.system.linux import cpu_features, cpu_name, meminfo_bytes
from edgedec.telemetry.machine import _FEATURES

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
    assert cpu_name(CPUINFO) == "Imaginary CPU 9000"
    assert cpu_features(_FEATURES, CPUINFO) == ("sse4_2", "fma", "avx2", "avx_vnni")
    assert cpu_name(ARM) == "Imaginary Phone"
    assert cpu_features(_FEATURES, ARM) == ("asimd", "asimddp", "i8mm")
    assert (cpu_name(""), cpu_features(_FEATURES, "")) == ("", ())


def test_meminfo() -> None:
    text = "MemTotal:        8000 kB\nMemAvailable:    6000 kB\n"
    assert meminfo_bytes(text, "MemAvailable") == 6000 * 1024
    assert meminfo_bytes(text, "SwapTotal") is None


def test_the_age_of_a_process_includes_the_interpreters_start() -> None:
    code = "import time; time.sleep(0.3); from edgedec.system.process import age_s; print(age_s())"
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
        "from edgedec.system.memory import peak_rss_bytes as peak\n"
        "before = peak(); block = b'x' * 80_000_000; print(before, peak())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    before, after = map(int, done.stdout.split())
    assert 60_000_000 < after - before < 200_000_000
