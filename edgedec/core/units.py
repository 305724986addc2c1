"""Numbers for people."""

from __future__ import annotations


def size(count: float) -> str:
    """Bytes in decimal units, as disks and download pages count: ``98.4 MB``."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"
