"""macOS' file of each module, on stand-ins for its calls."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from edgedec.system import allocator, macos_memory, macos_processor, places, psutil_cores, psutil_memory
from tests.system.standing_in import library, module

MB = 1 << 20


def footprint(monkeypatch: pytest.MonkeyPatch, *, fails: bool = False) -> SimpleNamespace:
    """A process with a footprint of 100 MB, and once of 150."""

    def usage(process: ctypes.c_int, version: ctypes.c_int, place: Any) -> int:
        assert version.value == 4
        found = ctypes.cast(place, ctypes.POINTER(macos_memory._Usage)).contents
        found.numbers[6], found.numbers[7], found.numbers[28] = 260 * MB, 100 * MB, 150 * MB
        return -1 if fails else 0

    return library(monkeypatch, None, proc_pid_rusage=usage)


def test_memory_is_the_physical_footprint(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = footprint(monkeypatch)
    assert (macos_memory.rss_bytes(), macos_memory.peak_rss_bytes()) == (100 * MB, 150 * MB)
    assert macos_memory.mapped_rss_bytes("weights.bin") == 0
    assert psutil_memory.ranges(Path("weights.bin")) == []
    assert {call[0] for call in calls.proc_pid_rusage.calls} == {os.getpid()}
    assert "footprint" in macos_memory.COUNTED


def test_the_structure_of_the_footprint_has_the_size_of_the_systems() -> None:
    assert ctypes.sizeof(macos_memory._Usage) == 296  # rusage_info_v4: a UUID and 35 numbers


def test_a_footprint_that_is_not_told_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    footprint(monkeypatch, fails=True)
    assert macos_memory.rss_bytes() == macos_memory.peak_rss_bytes() == 0


def test_the_rest_of_a_process_is_mapped_files(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = footprint(monkeypatch)
    resident = SimpleNamespace(memory_info=lambda: SimpleNamespace(rss=260 * MB))
    memory = SimpleNamespace(total=8 << 30, available=3 << 30)
    module(monkeypatch, "psutil", Process=lambda pid: resident, virtual_memory=lambda: memory)
    assert macos_memory.parts_of(77) == (160 * MB, 100 * MB)
    assert calls.proc_pid_rusage.calls[-1][0] == 77
    assert (psutil_memory.total_bytes(), psutil_memory.available_bytes()) == (8 << 30, 3 << 30)


def test_all_cores_may_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 10)
    monkeypatch.setattr(os, "getloadavg", lambda: (1.5, 1.0, 0.5), raising=False)
    times = SimpleNamespace(user=7.0, system=2.0, nice=1.0, idle=90.0)
    calls = {"cpu_count": lambda logical: None, "cpu_times": lambda: times}
    module(monkeypatch, "psutil", Process=SimpleNamespace, **calls)
    assert list(psutil_cores.allowed()) == list(range(10))
    assert psutil_cores.physical() == 10
    assert psutil_cores.busy_s() == 10.0
    assert psutil_cores.load_average() == 1.5


@pytest.mark.parametrize(
    ("settings", "name", "features"),
    [
        (
            {
                "machdep.cpu.brand_string": "Apple M9",
                "hw.optional.AdvSIMD": "1",
                "hw.optional.arm.FEAT_DotProd": "1",
                "hw.optional.arm.FEAT_I8MM": "1",
                "hw.optional.arm.FEAT_SME": "0",
            },
            "Apple M9",
            ("asimd", "asimddp", "i8mm"),
        ),
        (
            {
                "machdep.cpu.brand_string": "Imaginary CPU 9000",
                "machdep.cpu.features": "FPU SSE4.2 FMA AVX1.0 F16C",
                "machdep.cpu.leaf7_features": "AVX2 AVX512F",
            },
            "Imaginary CPU 9000",
            ("sse4_2", "f16c", "fma", "avx", "avx2", "avx512f"),
        ),
        ({}, "", ()),
    ],
)
def test_settings_tell_the_processor(
    settings: dict[str, str], name: str, features: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(command: list[str], **_: object) -> SimpleNamespace:
        assert command[:2] == ["sysctl", "-n"]
        return SimpleNamespace(stdout=settings.get(command[2], "") + "\n")

    monkeypatch.setattr(subprocess, "run", run)
    wanted = ("sse4_2", "f16c", "fma", "avx", "avx2", "avx512f", "asimd", "asimddp", "i8mm", "sme")
    assert macos_processor.cpu_name() == name
    assert macos_processor.cpu_features(wanted) == features


def test_a_system_without_settings_tells_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(command: list[str], **_: object) -> None:
        raise FileNotFoundError

    monkeypatch.setattr(subprocess, "run", missing)
    assert (macos_processor.cpu_name(), macos_processor.cpu_features(("avx2",))) == ("", ())


def test_freed_memory_goes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = library(monkeypatch, None, malloc_zone_pressure_relief=lambda zone, goal: 4096)
    monkeypatch.setattr(sys, "platform", "darwin")
    assert allocator.release_freed() is True
    assert calls.malloc_zone_pressure_relief.calls == [(None, 0)]
    assert allocator.keep_freed() is False


def test_folders_and_names() -> None:
    assert places.cache_folder("darwin") == Path.home() / "Library" / "Caches"
    assert places.library_name("edgedec_kernels", "darwin") == "libedgedec_kernels.dylib"
    assert places.versioned_names("onnxruntime", "darwin") == "libonnxruntime*.dylib"
    assert places.program_name("edgedec_host", "darwin") == "edgedec_host"
