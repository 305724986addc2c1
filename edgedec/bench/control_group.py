"""Groups of processes whose memory Linux counts and limits (version 1 of cgroups)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

_GROUPS = Path("/sys/fs/cgroup/memory")
_NO_LIMIT = 1 << 40


@dataclass(frozen=True, slots=True)
class ControlGroup:
    """A folder of the kernel's."""

    path: Path

    def limit(self, nbytes: int) -> None:
        """Most memory that its processes may have from now on; who wants more is killed."""
        (self.path / "memory.limit_in_bytes").write_text(str(nbytes))

    def enter(self) -> None:
        """Put this process, and those that it will start, into the group."""
        (self.path / "cgroup.procs").write_text(str(os.getpid()))

    def peak(self) -> int:
        """Most bytes charged to it: private memory, and pages of files that it was the first to read."""
        return int((self.path / "memory.max_usage_in_bytes").read_text())


@contextmanager
def control_group(name: str = "") -> Iterator[ControlGroup | None]:
    """A group of our own, or None where there are none or they are not ours to make."""
    group = ControlGroup(_GROUPS / f"edgedec-{os.getpid()}{name}")
    try:
        group.path.mkdir()
        group.limit(_NO_LIMIT)
    except OSError:
        yield None
        return
    try:
        yield group
    finally:
        with suppress(OSError):
            group.path.rmdir()
