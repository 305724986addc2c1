"""Memory that the control groups of this process leave it, as containers and services limit it (Linux).

Version 2 is one tree; in version 1 the memory controller has a tree of its own. Within a container both are
mounted at its own group.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple


class _Files(NamedTuple):
    limit: str
    usage: str
    inactive: str
    """The key in memory.stat of cached file pages that the system takes back first."""


_V2 = _Files("memory.max", "memory.current", "inactive_file")
_V1 = _Files("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")


def left_bytes(mounts: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")) -> int | None:
    """Return the least that any group of this process has left; None where no group has a limit."""
    return min((left for group, files in _groups(mounts, own) for left in _left(group, files)), default=None)


def _groups(mounts: Path, own: Path) -> Iterator[tuple[Path, _Files]]:
    """Yield this process's groups, each with those above it, and the names of their files."""
    try:
        lines = own.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        number, controllers, path = line.split(":", 2)
        if number == "0":
            root, files = mounts, _V2
        elif "memory" in controllers.split(","):
            root, files = mounts / "memory", _V1
        else:
            continue
        group = root / path.strip("/")
        yield from (
            (parent, files) for parent in (group, *group.parents) if root in (parent, *parent.parents)
        )


def _left(group: Path, files: _Files) -> Iterator[int]:
    """Yield what the group has left, if it has a limit."""
    try:
        limit, usage = (int((group / name).read_text()) for name in files[:2])
        stat = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
    except (OSError, ValueError):  # no such group in this container, or no limit: "max"
        return
    yield max(limit - usage + int(stat.get(files.inactive, 0)), 0)
