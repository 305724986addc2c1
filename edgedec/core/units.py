"""Word numbers for people."""

from __future__ import annotations

import re

from edgedec.core.errors import UsageError


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


def parse_size(text: str) -> int:
    """Return the bytes that ``text`` names: "600MB", "1.5 GB", "512MiB", or a plain number.

    Raises UsageError for anything else.

    >>> parse_size("1.5GB")
    1500000000
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmgt]?i?b?)", text.strip().lower())
    if not found or found[2] in ("i", "ib"):
        raise UsageError(f"{text!r:.40} is not a size", hint="600MB, 1.5GB and 512MiB are")
    factor = 1024 if "i" in found[2] else 1000
    return int(float(found[1]) * factor ** " kmgt".index((found[2] or " ")[0].replace("b", " ")))
