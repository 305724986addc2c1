"""Memory of the machine by psutil, on macOS and Windows, neither of which says where files are mapped."""

from __future__ import annotations

from pathlib import Path

TELLS_MAPPINGS = False
"""Whether ``ranges`` and the kernels know where files are mapped."""


def ranges(file: Path) -> list[tuple[int, int, int, bool]]:
    """Return nothing: that is not told."""
    return []


def available_bytes() -> int | None:
    """Return the memory that new work may take without swapping."""
    import psutil

    return int(psutil.virtual_memory().available)


def total_bytes() -> int | None:
    """Return the memory of the machine."""
    import psutil

    return int(psutil.virtual_memory().total)
