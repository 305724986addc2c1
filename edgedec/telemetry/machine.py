"""Facts about the machine, read from the operating system. Sizes are in bytes."""

from __future__ import annotations

import os
import platform
import sys
from dataclasses import asdict
from pathlib import Path

from edgedec.core.quick_dataclass import dataclass
from edgedec.telemetry.cgroup import left_bytes
from edgedec.telemetry.cores import load_average, usable_cores
from edgedec.telemetry.system_text import GROUPS, text_of

_CPUINFO = Path("/proc/cpuinfo")
_CGROUP_LIMITS = (GROUPS / "memory.max", GROUPS / "memory" / "memory.limit_in_bytes")
# The features of x86 and Arm that the kernels look for, under their names in Linux.
_FEATURES = (
    "sse4_2", "f16c", "fma", "avx", "avx2", "avx_vnni", "avx512f", "avx512bw", "avx512vl", "avx512_vnni",
    "avx512_bf16", "amx_tile", "amx_int8", "asimd", "asimddp", "i8mm", "sve", "sve2", "sme",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Machine:
    """One machine. This process may use ``cores`` of its ``logical_cpus``."""

    system: str
    cpu: str
    architecture: str
    cores: int
    logical_cpus: int
    memory_bytes: int | None
    memory_available_bytes: int | None
    features: tuple[str, ...]
    load_average: float | None
    """Processes that ran or waited for a core in the last minute, on average."""

    def as_json(self) -> dict[str, object]:
        return {**asdict(self), "features": list(self.features)}


def describe() -> Machine:
    """Describe this machine. Facts that the system does not tell are None or empty, never guessed."""
    text = text_of(_CPUINFO)
    return Machine(
        system=f"{platform.system()} {platform.release()}",
        cpu=cpu_name(text) or _sysctl("machdep.cpu.brand_string") or platform.processor() or "unknown",
        architecture=platform.machine(),
        cores=usable_cores(),
        logical_cpus=os.cpu_count() or 1,
        memory_bytes=_memory_total(),
        memory_available_bytes=available_bytes(),
        features=cpu_features(text),
        load_average=load_average(),
    )


def available_bytes() -> int | None:
    """Return the memory that new work may take without swapping; None where the system does not say.

    A control group, as of a container, may leave less than the machine has.
    """
    machine, group = meminfo_bytes(text_of(Path("/proc/meminfo")), "MemAvailable"), left_bytes()
    return machine if group is None or machine is None else min(machine, group)


def cpu_name(cpuinfo: str) -> str:
    """Return the ``model name`` (x86) or ``Hardware`` (Arm) of a Linux ``/proc/cpuinfo``; '' without one."""
    for wanted in ("model name", "Hardware"):
        for line in cpuinfo.splitlines():
            key, _, value = line.partition(":")
            if key.strip() == wanted and value.strip():
                return value.strip()
    return ""


def cpu_features(cpuinfo: str) -> tuple[str, ...]:
    """Select the features that the kernels look for from the first core of a Linux ``/proc/cpuinfo``."""
    for line in cpuinfo.splitlines():
        key, _, value = line.partition(":")
        if key.strip() in ("flags", "Features"):
            present = set(value.split())
            return tuple(name for name in _FEATURES if name in present)
    return ()


def meminfo_bytes(meminfo: str, key: str) -> int | None:
    """Return one entry of a Linux ``/proc/meminfo`` in bytes; None when it is not there."""
    for line in meminfo.splitlines():
        name, _, rest = line.partition(":")
        fields = rest.split()
        if name == key and fields and fields[0].isdigit():
            return int(fields[0]) * 1024
    return None


def _memory_total() -> int | None:
    sizes = [int(text) for path in _CGROUP_LIMITS if (text := text_of(path).strip()).isdigit()]
    try:
        sizes.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):
        memory = _sysctl("hw.memsize")
        sizes += [int(memory)] if memory.isdigit() else []
    return min(sizes, default=None)  # a container's limit counts where it is the smaller one


def _sysctl(name: str) -> str:
    if sys.platform != "darwin":
        return ""
    import subprocess

    try:
        done = subprocess.run(["sysctl", "-n", name], capture_output=True, text=True, timeout=5, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip()
