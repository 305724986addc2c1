"""Memory of this process and of the machine, by the number that its system counts."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple

if sys.platform == "win32":
    from edgedec.system.psutil_memory import TELLS_MAPPINGS, available_bytes, ranges, total_bytes
    from edgedec.system.windows_memory import COUNTED, mapped_rss_bytes, parts_of, peak_rss_bytes, rss_bytes
elif sys.platform == "darwin":
    from edgedec.system.macos_memory import COUNTED, mapped_rss_bytes, parts_of, peak_rss_bytes, rss_bytes
    from edgedec.system.psutil_memory import TELLS_MAPPINGS, available_bytes, ranges, total_bytes
else:
    from edgedec.system.linux import (
        COUNTED,
        TELLS_MAPPINGS,
        available_bytes,
        mapped_rss_bytes,
        parts_of,
        peak_rss_bytes,
        ranges,
        rss_bytes,
        total_bytes,
    )

__all__ = [
    "COUNTED",
    "TELLS_MAPPINGS",
    "Mapping",
    "available_bytes",
    "mapped_bytes",
    "mapped_rss_bytes",
    "mappings",
    "parts_of",
    "peak_rss_bytes",
    "rss_bytes",
    "total_bytes",
]


class Mapping(NamedTuple):
    """Addresses from ``start`` to ``end`` that have a file's bytes from ``offset`` on; whether they are
    ``private``: what is written there is this process's own.
    """

    start: int
    end: int
    offset: int
    private: bool

    @property
    def nbytes(self) -> int:
        return self.end - self.start


def mappings(file: Path) -> list[Mapping]:
    """Return where ``file`` is mapped; nothing if that is unknown."""
    return [Mapping(*one) for one in ranges(file)]


def mapped_bytes(file: Path) -> int:
    """Return the bytes of the pages into which ``file`` is mapped; 0 if unknown.

    They are more than its size if it is mapped in pieces.
    """
    return sum(one.nbytes for one in mappings(file))
