"""Files past the system's cache, locks on open ones, renames, stamps, and names that a file may have."""

from __future__ import annotations

import mmap
import os
import sys
import time
from pathlib import Path

if sys.platform == "win32":
    from edgedec.system.windows_locks import LOCKS_FOLDERS, lock
else:
    from edgedec.system.posix import LOCKS_FOLDERS, lock

__all__ = [
    "LOCKS_FOLDERS",
    "NO_LINKS",
    "forget",
    "lock",
    "open_uncached",
    "read_at",
    "replace",
    "stamp",
    "wrong_with_name",
]
NO_LINKS: int = getattr(os, "O_NOFOLLOW", 0)
"""The flag of ``os.open`` that follows no symbolic link; 0 where there is none."""
_UNCACHED: int = getattr(os, "O_DIRECT", 0)
_TRIES, _PAUSE_S = 20, 0.05
_RESERVED = {"con", "prn", "aux", "nul"}
_RESERVED |= {f"{kind}{number}" for kind in ("com", "lpt") for number in range(1, 10)}
"""Names of devices, which no file may have on Windows, with any ending."""
_NOT_IN_NAMES = '<>:"|?*\\'


def open_uncached(path: Path) -> int:
    """Open a file to read it past the system's cache, or through it where that cannot be. Raises OSError."""
    binary: int = getattr(os, "O_BINARY", 0)
    try:
        return os.open(path, os.O_RDONLY | binary | _UNCACHED)
    except OSError:
        return os.open(path, os.O_RDONLY | binary)


def read_at(file: int, room: mmap.mmap, start: int) -> int:
    """Fill ``room`` from byte ``start`` of a file; return how many bytes there were.

    On Windows threads that share a file may read from each other's places.
    """
    if sys.platform != "win32":
        return os.preadv(file, [room], start)
    os.lseek(file, start, os.SEEK_SET)
    data = os.read(file, len(room))
    room[: len(data)] = data
    return len(data)


def stamp(file: Path | int) -> list[int]:
    """Return size, number and times of a file, open or by its path; they change when its bytes do.

    Raises OSError.
    """
    status = os.stat(file)
    changed = status.st_ctime_ns
    if sys.platform == "win32":
        from edgedec.system.windows_times import changed as of_windows

        changed = of_windows(file)
    return [status.st_size, status.st_ino, status.st_mtime_ns, changed]


def forget(path: Path) -> None:
    """Ask the system to drop cached pages of a file, where it can be asked. Raises OSError.

    Pages that another process has mapped stay.
    """
    if sys.platform == "linux":
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)


def replace(source: Path, target: Path, system: str = sys.platform) -> None:
    """Rename a file, over another one too. Raises OSError.

    On Windows a scanner of viruses may hold a file that was just written: it is tried for a second.
    """
    for tried in range(_TRIES):
        try:
            return os.replace(source, target)
        except PermissionError:
            if system != "win32" or tried == _TRIES - 1:
                raise
            time.sleep(_PAUSE_S)


def wrong_with_name(name: str, system: str = sys.platform) -> str | None:
    """Return why no file of this system may have a name; None for one that is fine."""
    if system != "win32":
        return None
    if name.partition(".")[0].rstrip().lower() in _RESERVED:
        return "it is the name of a device"
    if found := next((one for one in name if one in _NOT_IN_NAMES or ord(one) < 32), None):
        return f"it has the character {found!r}"
    return "it ends with a dot or a space" if name[-1:] in (".", " ") else None
