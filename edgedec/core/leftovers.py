"""Unfinished directories that killed processes left beside their target.

A process holds a lock on the directory that it writes, which the operating system releases when it dies.
"""

from __future__ import annotations

import glob
import os
import shutil
import time
from contextlib import suppress
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows locks no directories
    fcntl = None  # type: ignore[assignment]

_ABANDONED_S = 60.0
"""Age of the newest file of an abandoned one; within it a new directory gets its lock."""


def hold(directory: Path) -> int | None:
    """Mark ``directory`` as being written until the descriptor is closed; None where there are no marks."""
    if fcntl is None:
        return None
    descriptor = os.open(directory, os.O_RDONLY)
    with suppress(OSError):  # a file system without locks: its leftovers are told by their age alone
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return descriptor


def remove_leftovers(target: Path) -> None:
    """Delete the unfinished directories beside ``target`` that nobody writes any more."""
    for left in target.parent.glob(f"{glob.escape(target.name)}.partial-????????"):
        with suppress(OSError):
            if not left.is_symlink() and left.is_dir() and _is_abandoned(left):
                shutil.rmtree(left, ignore_errors=True)


def _is_abandoned(directory: Path) -> bool:
    newest = max(os.lstat(one).st_mtime for one in (directory, *directory.iterdir()))
    if time.time() - newest < _ABANDONED_S:
        return False
    if fcntl is None:
        return True
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True
