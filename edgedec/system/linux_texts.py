"""Texts in which Linux tells facts, and where they lie."""

from __future__ import annotations

from pathlib import Path

PROCESSES = Path("/proc")
DEVICES = Path("/sys")
GROUPS = DEVICES / "fs" / "cgroup"
"""The folder where control groups are mounted."""
OWN_GROUPS = PROCESSES / "self" / "cgroup"
MOUNTS = PROCESSES / "mounts"
TIMES = PROCESSES / "stat"


def text_of(path: Path) -> str:
    """Return the text of a file; "" where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
