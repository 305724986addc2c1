"""Groups of processes whose memory Linux counts and limits: cgroups, version 1 or 2 (cgroups(7)).

Of version 2 a group with processes gives its children no controllers. So ours is made in the nearest group
above this process that does, where that is ours to make groups in: root's, or what systemd delegated.

A limit of a process's addresses (RLIMIT_AS, RLIMIT_DATA) would be no substitute: it counts what is reserved,
and not, or all at once, the pages of mapped weights.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

_VERSION_1 = Path("/sys/fs/cgroup/memory")
_MOUNTS = Path("/proc/mounts")
_OWN = Path("/proc/self/cgroup")
_NO_LIMIT = 1 << 40


class Missing(Exception):  # noqa: N818 - it is no error: memory is watched then
    """Why there can be no group: one line."""


@dataclass(frozen=True, slots=True)
class ControlGroup:
    """A folder of the kernel's, and which of its files do what."""

    path: Path
    most: str = "memory.limit_in_bytes"
    seen: str = "memory.max_usage_in_bytes"
    events: str = "memory.oom_control"

    def limit(self, nbytes: int) -> None:
        """Most memory that its processes may have from now on; who wants more is killed."""
        (self.path / self.most).write_text(str(nbytes))
        if (swap := self.path / "memory.swap.max").exists():
            swap.write_text("0")

    def enter(self) -> None:
        """Put this process, and those that it will start, into the group."""
        (self.path / "cgroup.procs").write_text(str(os.getpid()))

    def peak(self) -> int | None:
        """Most bytes charged to it: private memory, and pages of files that it was the first to read. None
        where the kernel does not say (version 2 before Linux 5.19).
        """
        try:
            return int((self.path / self.seen).read_text())
        except FileNotFoundError:
            return None

    def kills(self) -> int:
        """Processes of it that were killed, so far, because they wanted more."""
        facts = dict(line.split(maxsplit=1) for line in (self.path / self.events).read_text().splitlines())
        return int(facts.get("oom_kill", 0))


@contextmanager
def control_group(
    name: str = "", missing: Callable[[str], None] = lambda line: None
) -> Iterator[ControlGroup | None]:
    """A group of our own, or None where there can be none; ``missing`` hears why."""
    try:
        group = _made(f"edgedec-{os.getpid()}{name}")
    except Missing as reason:
        missing(str(reason))
        yield None
        return
    try:
        yield group
    finally:
        with suppress(OSError):
            group.path.rmdir()


def _made(name: str) -> ControlGroup:
    """Raises Missing."""
    first = _VERSION_1.is_dir()
    parent = _VERSION_1 if first else _giving_parent()
    path = parent / name
    group = ControlGroup(path) if first else ControlGroup(path, "memory.max", "memory.peak", "memory.events")
    try:
        path.mkdir()
    except OSError as error:
        raise Missing(f"no control group can be made in {parent} ({error.strerror})") from error
    try:
        group.limit(_NO_LIMIT)
        _try(group)
    except (OSError, subprocess.SubprocessError) as error:
        with suppress(OSError):
            path.rmdir()
        raise Missing(f"no process may be moved into a control group in {parent}") from error
    return group


def _try(group: ControlGroup) -> None:
    """To move a process takes more rights than to make a group: those of all groups between."""
    subprocess.run([sys.executable, "-S", "-c", ""], check=True, preexec_fn=group.enter)


def _giving_parent() -> Path:
    """The nearest group (version 2) from this process's own upwards whose children have their memory counted.

    Raises Missing.
    """
    root = _mount()
    own = next((line[len("0::") :] for line in _lines(_OWN) if line.startswith("0::")), "/")
    if "memory" not in _words(root / "cgroup.controllers"):
        raise Missing(f"the control groups in {root} do not count memory")
    nearest = root / own.lstrip("/")
    for parent in (nearest, *nearest.parents):
        if "memory" in _words(parent / "cgroup.subtree_control"):
            return parent
        if parent == root:
            break
    raise Missing(f"no control group from {nearest} up has memory in its cgroup.subtree_control")


def _mount() -> Path:
    for line in _lines(_MOUNTS):
        _, where, kind, *_ = line.split()
        if kind == "cgroup2":
            return Path(where)
    raise Missing("there are no control groups here")


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text().splitlines()
    except OSError:
        return []


def _words(file: Path) -> list[str]:
    return [word for line in _lines(file) for word in line.split()]
