"""The alignment of libraries: phones with pages of 16 KB load no others."""

from __future__ import annotations

import struct
from pathlib import Path

from building.tools import BuildError

PAGE = 16 * 1024
_LOAD = 1


def check(library: Path) -> None:
    """Raise BuildError unless every segment of a 64-bit library lies as pages of 16 KB need it."""
    data = library.read_bytes()
    try:
        if data[:6] != b"\x7fELF\x02\x01":
            raise ValueError
        segments = [one for one in _segments(data) if one[0] == _LOAD]
        if not segments:
            raise ValueError
    except (ValueError, struct.error) as error:
        raise BuildError(f"{library} is no 64-bit library") from error
    for _, offset, address, align in segments:
        if align % PAGE or not align or (address - offset) % PAGE:
            raise BuildError(
                f"{library} is aligned for pages of {align} bytes, and newer phones have pages of {PAGE}: "
                "take a newer version of it"
            )


def _segments(data: bytes) -> list[tuple[int, int, int, int]]:
    """Kind, offset, address and alignment of each."""
    (table,) = struct.unpack_from("<Q", data, 32)
    size, count = struct.unpack_from("<HH", data, 54)
    found = []
    for at in range(count):
        kind, _, offset, address, _, _, _, align = struct.unpack_from("<IIQQQQQQ", data, table + at * size)
        found.append((kind, offset, address, align))
    return found
