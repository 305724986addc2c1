"""Limits that a process sets for itself; a system that does not have them sets none."""

from __future__ import annotations

import sys
from contextlib import suppress


def address_space() -> int | None:
    """Return the bytes of address space in use; None on systems that do not limit it (all but Linux)."""
    if not sys.platform.startswith("linux"):
        return None
    import resource

    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[0]) * resource.getpagesize()


def limit_address_space(nbytes: int) -> None:
    """Let the process take ``nbytes`` of address space at most."""
    import resource

    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    with suppress(ValueError):  # the system's own limit is lower, and holds
        resource.setrlimit(resource.RLIMIT_AS, (nbytes, hard))


def leave_no_core() -> None:
    """Write no file when the process crashes."""
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
