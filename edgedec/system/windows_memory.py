"""Memory by Windows' counts: private bytes, and at their peak the working set with mapped files. In bytes."""

from __future__ import annotations

COUNTED = "private bytes; at their peak the working set, mapped files included"
"""The numbers by which the memory of a process is counted."""


def rss_bytes() -> int:
    """Return the private bytes of this process: all that no other process can share, mapped files apart."""
    import psutil

    return int(psutil.Process().memory_info().private)


def peak_rss_bytes() -> int:
    """Return the largest working set that this process has had, mapped weights included."""
    import psutil

    return int(psutil.Process().memory_info().peak_wset)


def mapped_rss_bytes(name: str) -> int:
    """Return 0: private bytes have no pages of mapped files."""
    return 0


def parts_of(process: int | None) -> tuple[int, int]:
    """Return the memory of a process, by default this one, in mapped files and of its own."""
    import psutil

    found = psutil.Process(process).memory_info()
    return max(int(found.rss) - int(found.private), 0), int(found.private)
