"""Memory that the control groups of this process leave it, as containers and services limit it (Linux)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from edgedec.telemetry.system_text import GROUPS, OWN_GROUPS, groups, text_of


class _Files(NamedTuple):
    limit: str
    usage: str
    inactive: str
    """The key in memory.stat of cached file pages that the system takes back first."""


_V2 = _Files("memory.max", "memory.current", "inactive_file")
_V1 = _Files("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")


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
