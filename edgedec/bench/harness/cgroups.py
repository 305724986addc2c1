"""Groups of processes whose memory Linux counts and limits: cgroups, version 1 or 2 (cgroups(7)).

In version 2 a group that has processes gives its children no controllers. The new group is therefore made in
the nearest group above this process that does. This process must be allowed to write there: it is root, or
systemd delegated that group.

Limits of address space (RLIMIT_AS, RLIMIT_DATA) are no substitute: they count reserved addresses, and count
pages of mapped weights not at all or all at once.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from edgedec.core.quick_dataclass import dataclass
from edgedec.system.linux_texts import GROUPS, MOUNTS, OWN_GROUPS, text_of

_VERSION_1 = GROUPS / "memory"
_NO_LIMIT = 1 << 40


class Missing(Exception):  # noqa: N818 - it is no error: memory is watched then
    """No group can be made; the message says why in one line."""


@dataclass(frozen=True, slots=True)
class Cgroup:
    """A folder of the kernel, and the names of its files."""

    path: Path
    most: str = "memory.limit_in_bytes"
    seen: str = "memory.max_usage_in_bytes"
    events: str = "memory.oom_control"

    def limit(self, nbytes: int) -> None:
        """Limit the memory of its processes, in bytes. The kernel kills a process that takes more."""
        (self.path / self.most).write_text(str(nbytes))
        if (swap := self.path / "memory.swap.max").exists():
            swap.write_text("0")

    def enter(self) -> None:
        """Put this process and its later children into the group."""
        (self.path / "cgroup.procs").write_text(str(os.getpid()))

    def peak(self) -> int | None:
        """Return the most bytes charged to the group; None in version 2 before Linux 5.19.

        These are private memory, and pages of files that the group was the first to read.
        """
        try:
            return int((self.path / self.seen).read_text())
        except FileNotFoundError:
            return None

    def kills(self) -> int:
        """Count the processes that the kernel has killed for the limit so far."""
        facts = dict(line.split(maxsplit=1) for line in (self.path / self.events).read_text().splitlines())
        return int(facts.get("oom_kill", 0))


@contextmanager
def cgroup(name: str = "", missing: Callable[[str], None] = lambda line: None) -> Iterator[Cgroup | None]:
    """Make a group, or yield None where none can be made; ``missing`` is called with the reason."""
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


def _made(name: str) -> Cgroup:
    """Raises Missing."""
    first = _VERSION_1.is_dir()
    parent = _VERSION_1 if first else _giving_parent()
    path = parent / name
    group = Cgroup(path) if first else Cgroup(path, "memory.max", "memory.peak", "memory.events")
    try:
        path.mkdir()
    except OSError as error:
        raise Missing(f"no cgroup can be made in {parent} ({error.strerror})") from error
    try:
        group.limit(_NO_LIMIT)
        _try(group)
    except (OSError, subprocess.SubprocessError) as error:
        with suppress(OSError):
            path.rmdir()
        raise Missing(f"no process may be moved into a cgroup in {parent}") from error
    return group


def _try(group: Cgroup) -> None:
    """Move a process into the group, which takes more rights than making it. Raises OSError or another."""
    subprocess.run([sys.executable, "-S", "-c", ""], check=True, preexec_fn=group.enter)


def _giving_parent() -> Path:
    """Return the nearest group (version 2) from this process upwards that counts its children's memory.

    Raises Missing.
    """
    root = _mount()
    told = text_of(OWN_GROUPS).splitlines()
    own = next((line[len("0::") :] for line in told if line.startswith("0::")), "/")
    if "memory" not in _words(root / "cgroup.controllers"):
        raise Missing(f"the cgroups in {root} do not count memory")
    nearest = root / own.lstrip("/")
    for parent in (nearest, *nearest.parents):
        if "memory" in _words(parent / "cgroup.subtree_control"):
            return parent
        if parent == root:
            break
    raise Missing(f"no cgroup from {nearest} up has memory in its cgroup.subtree_control")


def _mount() -> Path:
    for line in text_of(MOUNTS).splitlines():
        _, where, kind, *_ = line.split()
        if kind == "cgroup2":
            return Path(where)
    raise Missing("there are no cgroups here")


def _words(file: Path) -> list[str]:
    return text_of(file).split()
