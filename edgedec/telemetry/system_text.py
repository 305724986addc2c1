"""Texts in which the operating system tells facts, and the control groups of this process (Linux)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

OWN_GROUPS = Path("/proc/self/cgroup")
GROUPS = Path("/sys/fs/cgroup")
"""The folder where control groups are mounted."""


def text_of(path: Path) -> str:
    """Return the text of a file; "" where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def groups(controller: str, own: str, root: Path = GROUPS) -> Iterator[tuple[Path, bool]]:
    """Yield the folders of this process's groups with those above them, and whether they are of version 2.

    Version 2 is one tree; in version 1 a controller has a tree of its own. Those above a container are not
    seen: its own is the root then. ``own``: the text of Linux's /proc/self/cgroup.
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
