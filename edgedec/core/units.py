"""Word numbers for people."""

from __future__ import annotations


def size(count: float) -> str:
    """Return bytes in decimal units, as disks and download pages count them.

    >>> size(98_400_000)
    '98.4 MB'
    """
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def size_up(count: int) -> str:
    """Return a bound in whole MB that is at least ``count`` bytes.

    >>> size_up(299_000_001)
    '300MB'
    """
    return f"{-(-count // 1_000_000)}MB"
