"""RAPL counters of Intel and AMD processors, through Linux's powercap.

See ``Documentation/power/powercap/powercap.rst`` of Linux. A package contains its cores and graphics, so
these subdomains are not counted again; memory (``dram``) is outside of it. ``psys`` covers the whole board,
packages included: it counts only where there is no package. ``intel-rapl-mmio`` shows the same packages once
more.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

from edgedec.system.linux_texts import DEVICES, text_of
from edgedec.telemetry.energy.meter import Counter, Refused, SleepWatch

_JOULES_EACH = 1e-6
_ZONE = re.compile(r"intel-rapl:(\d+)(:\d+)?")
_CLOSED = (
    "RAPL: only root may read its counters (they can betray secrets of other processes, CVE-2020-8694); "
    f"`sudo chmod a+r {DEVICES}/class/powercap/intel-rapl:*/energy_uj` opens them until the next start"
)


class RaplMeter:
    """Packages and their memory. Raises Refused where there are no counters, or only for root."""

    least_s = 0.02
    """The counters are written about every millisecond."""

    def __init__(self, sys: Path = DEVICES, asleep: Callable[[], float] | None = None) -> None:
        zones = _zones(sys / "class" / "powercap")
        self._counters = {name: _counter(folder) for name, folder in zones.items()}
        self._watch = SleepWatch(asleep)
        self.interruptions = 0
        names = ", ".join(zones)
        has_memory = any(name.startswith("dram") for name in zones)
        self.source = f"RAPL ({names})" if has_memory else f"RAPL ({names}; memory is not counted)"

    def read(self) -> dict[str, float]:
        """See ``Meter.read``."""
        slept = self._watch.slept()
        self.interruptions += slept
        return {name: counter.advance(slept=slept) for name, counter in self._counters.items()}

    def watts(self) -> float | None:
        """None: the counters tell energy."""
        return None


def _zones(powercap: Path) -> dict[str, Path]:
    """Return the folders of the domains to count, by name. Raises Refused."""
    if not powercap.is_dir():
        raise Refused(
            f"RAPL: this system has no {DEVICES}/class/powercap (a virtual machine, or not Linux on x86)"
        )
    packages: dict[str, Path] = {}
    memory: dict[str, Path] = {}
    boards: dict[str, Path] = {}
    for folder in sorted(powercap.iterdir()):
        if not (found := _ZONE.fullmatch(folder.name)):
            continue
        name = text_of(folder / "name").strip()
        if found[2] is None and name == "psys":
            boards["psys"] = folder
        elif found[2] is None:
            packages[name] = folder
        elif name == "dram":
            memory[f"dram-{found[1]}"] = folder
    if not packages and not boards:
        raise Refused("RAPL: the processor has no counters, or the module intel_rapl_msr is not loaded")
    return {**packages, **memory} if packages else boards


def _counter(zone: Path) -> Counter:
    most = text_of(zone / "max_energy_range_uj").strip()
    return Counter(partial(_count, zone / "energy_uj"), _JOULES_EACH, int(most) if most.isdigit() else 0)


def _count(file: Path) -> int:
    try:
        return int(file.read_text(encoding="ascii"))
    except PermissionError as error:
        raise Refused(_CLOSED) from error
    except (OSError, ValueError) as error:
        raise Refused(f"RAPL: {file} cannot be read") from error
