"""Facts about the machine. Sizes are in bytes."""

from __future__ import annotations

import os
import platform
from dataclasses import asdict

from edgedec.core.quick_dataclass import dataclass
from edgedec.system.cores import load_average
from edgedec.system.memory import available_bytes, total_bytes
from edgedec.telemetry.cores import usable_cores

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
    from edgedec.system.cores import cpu_features, cpu_name

    return Machine(
        system=f"{platform.system()} {platform.release()}",
        cpu=cpu_name() or platform.processor() or "unknown",
        architecture=platform.machine(),
        cores=usable_cores(),
        logical_cpus=os.cpu_count() or 1,
        memory_bytes=total_bytes(),
        memory_available_bytes=available_bytes(),
        features=cpu_features(_FEATURES),
        load_average=load_average(),
    )
