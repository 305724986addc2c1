"""Facts of Linux: control groups, memory, cores, processor. Sizes are in bytes."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from edgedec.system.linux_texts import DEVICES, GROUPS, OWN_GROUPS, PROCESSES, TIMES, text_of

assert sys.platform != "win32"
COUNTED = "resident pages, mapped files included"
"""The number by which the memory of a process is counted."""
TELLS_MAPPINGS = True
"""Whether ``ranges`` and the kernels know where files are mapped."""
_MACHINE = PROCESSES / "meminfo"
_LIMITS = (GROUPS / "memory.max", GROUPS / "memory" / "memory.limit_in_bytes")
_BUSY = (0, 1, 2, 5, 6, 7)
"""Fields of a line about a core's times: user, nice, system, irq, softirq, steal (proc_stat(5))."""
_CPUINFO = PROCESSES / "cpuinfo"


class _Files(NamedTuple):
    limit: str
    usage: str
    inactive: str
    """The key in memory.stat of cached file pages that the system takes back first."""


_V2 = _Files("memory.max", "memory.current", "inactive_file")
_V1 = _Files("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")


def groups(controller: str, own: str, root: Path = GROUPS) -> Iterator[tuple[Path, bool]]:
    """Yield the folders of this process's groups with those above them, and whether they are of version 2.

    Version 2 is one tree; in version 1 a controller has a tree of its own. Those above a container are not
    seen: its own is the root then. ``own``: the text of ``OWN_GROUPS``.
    """
    for line in own.splitlines():
        _, controllers, path = (*line.split(":", 2), "", "")[:3]
        mounts = [root]
        if controllers:
            names = (controllers, controller) if controller in controllers.split(",") else ()
            mounts = [root / name for name in names if (root / name).is_dir()][:1]
        parts = [part for part in path.split("/") if part not in ("", "..")]
        for mount in mounts:
            for count in range(len(parts), -1, -1):
                yield mount.joinpath(*parts[:count]), not controllers


def left_bytes(root: Path = GROUPS, own: Path = OWN_GROUPS) -> int | None:
    """Return the least that any group of this process has left; None where no group has a limit."""
    found = ((group, _V2 if second else _V1) for group, second in groups("memory", text_of(own), root))
    return min((left for group, files in found for left in _left(group, files)), default=None)


def _left(group: Path, files: _Files) -> Iterator[int]:
    """Yield what the group has left, if it has a limit."""
    try:
        limit, usage = (int((group / name).read_text()) for name in files[:2])
        stat = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
    except (OSError, ValueError):  # no such group in this container, or no limit: "max"
        return
    yield max(limit - usage + int(stat.get(files.inactive, 0)), 0)


def quota_cores(own: str | None = None, root: Path = GROUPS) -> int | None:
    """Return the cores that the CPU quota of this process is worth, rounded up; None without a quota.

    The groups above its own count too. ``own`` and ``root``: see ``groups``.
    """
    told = text_of(OWN_GROUPS) if own is None else own
    found = [_quota_v2(group) if second else _quota_v1(group) for group, second in groups("cpu", told, root)]
    return min((math.ceil(quota) for quota in found if quota), default=None)


def _quota_v2(group: Path) -> float | None:
    quota, period = (*text_of(group / "cpu.max").split(), "", "")[:2]
    return _share(quota, period)


def _quota_v1(group: Path) -> float | None:
    return _share(text_of(group / "cpu.cfs_quota_us"), text_of(group / "cpu.cfs_period_us"))


def _share(quota: str, period: str) -> float | None:
    """Return quota / period, both in microseconds; None for "max", -1 and other words for no quota."""
    quota, period = quota.strip(), period.strip()
    if not (quota.isdigit() and period.isdigit() and int(quota) and int(period)):
        return None
    return int(quota) / int(period)


def rss_bytes() -> int:
    """Return the physical memory that this process holds now, mapped files included; 0 if unknown."""
    return _status_bytes("VmRSS")


def peak_rss_bytes() -> int:
    """Return the most physical memory that this process has held, mapped weights included; 0 if unknown."""
    # Linux passes ru_maxrss on from the parent through fork and exec; VmHWM counts this program alone.
    if peak := _status_bytes("VmHWM"):
        return peak
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def mapped_rss_bytes(name: str) -> int:
    """Return the part of ``rss_bytes`` in pages of files called ``name``; 0 if unknown."""
    inside, total = False, 0
    for line in _text("smaps").splitlines():
        if line.startswith("Rss:"):
            total += int(line.split()[1]) * 1024 if inside else 0
        elif not line.split(maxsplit=1)[0].endswith(":"):  # the next mapping
            inside = line.endswith("/" + name)
    return total


def parts_of(process: int | None) -> tuple[int, int]:
    """Return the memory of a process, by default this one, in mapped files and of its own; 0 if unknown."""
    return _status_bytes("RssFile", process), _status_bytes("RssAnon", process)


def ranges(file: Path) -> list[tuple[int, int, int, bool]]:
    """Return where ``file`` is mapped, as ``Mapping`` has it; nothing if that is unknown."""
    found, ending, maps = [], f" {file.resolve()}", _text("maps")
    for line in maps.splitlines() if ending in maps else ():
        if line.endswith(ending):
            span, access, offset = line.split(maxsplit=3)[:3]
            start, end = span.split("-")
            found.append((int(start, 16), int(end, 16), int(offset, 16), access == "rw-p"))
    return found


def available_bytes() -> int | None:
    """Return the memory that new work may take without swapping; None where the system does not say.

    A control group, as of a container, may leave less than the machine has.
    """
    machine, group = meminfo_bytes(text_of(_MACHINE), "MemAvailable"), left_bytes()
    return machine if group is None or machine is None else min(machine, group)


def total_bytes() -> int | None:
    """Return the memory of the machine; a container's limit counts where it is the smaller one."""
    sizes = [int(text) for path in _LIMITS if (text := text_of(path).strip()).isdigit()]
    with suppress(ValueError, OSError):
        sizes.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    return min(sizes, default=None)


def meminfo_bytes(meminfo: str, key: str) -> int | None:
    """Return one entry of the text about the machine's memory in bytes; None when it is not there."""
    for line in meminfo.splitlines():
        name, _, rest = line.partition(":")
        fields = rest.split()
        if name == key and fields and fields[0].isdigit():
            return int(fields[0]) * 1024
    return None


def _status_bytes(name: str, process: int | None = None) -> int:
    for line in _text("status", process).splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1]) * 1024
    return 0


def _text(name: str, process: int | None = None) -> str:
    """Return a file about a process, by default this one; nothing where there is none."""
    return text_of(PROCESSES / str(process or "self") / name)


def allowed() -> Collection[int]:
    """Return the numbers of the logical cores that this process may run on; all without an affinity."""
    affinity = getattr(os, "sched_getaffinity", None)
    return (affinity(0) if affinity else None) or range(os.cpu_count() or 1)


def physical() -> int:
    """Count the cores that it may run on; hyperthreads count once."""
    return len({_siblings(cpu) for cpu in allowed()})


def load_average() -> float | None:
    """Return the processes that ran or waited for a core in the last minute, on average; None if unknown."""
    try:
        return os.getloadavg()[0]
    except OSError:
        return None


def busy_s(times: Path = TIMES) -> float | None:
    """Return the seconds that the usable cores were busy since the start; None where it is not known."""
    with suppress(OSError, ValueError, IndexError):
        lines = (line.split() for line in times.read_text(encoding="ascii").splitlines())
        cores = {f"cpu{number}" for number in allowed()}
        fields = [[int(one) for one in rest] for name, *rest in lines if name in cores]
        return sum(core[field] for core in fields for field in _BUSY) / os.sysconf("SC_CLK_TCK") or None
    return None


def _siblings(cpu: int) -> str:
    path = DEVICES / f"devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"
    return text_of(path).strip() or str(cpu)


def cpu_name(cpuinfo: str | None = None) -> str:
    """Return the ``model name`` (x86) or ``Hardware`` (Arm) of the text about processors; '' without one."""
    for wanted in ("model name", "Hardware"):
        for key, value in _pairs(cpuinfo):
            if key == wanted and value:
                return value
    return ""


def cpu_features(wanted: Sequence[str], cpuinfo: str | None = None) -> tuple[str, ...]:
    """Return those of the features ``wanted`` that the first core has."""
    for key, value in _pairs(cpuinfo):
        if key in ("flags", "Features"):
            present = set(value.split())
            return tuple(name for name in wanted if name in present)
    return ()


def _pairs(cpuinfo: str | None) -> list[tuple[str, str]]:
    text = text_of(_CPUINFO) if cpuinfo is None else cpuinfo
    parted = (line.partition(":") for line in text.splitlines())
    return [(key.strip(), value.strip()) for key, _, value in parted]
