"""Lock a file between processes. The operating system releases the lock when its holder dies."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from edgedec.core.files import storage_errors

if sys.platform == "win32":
    import msvcrt

    def _try(descriptor: int) -> bool:
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

    def _wait(descriptor: int) -> None:
        while not _try(descriptor):  # LK_LOCK itself gives up after ten seconds
            with suppress(OSError):
                msvcrt.locking(descriptor, msvcrt.LK_LOCK, 1)
                return

else:
    import fcntl

    def _try(descriptor: int) -> bool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _wait(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX)


@contextmanager
def exclusive(path: Path, waiting: Callable[[], None]) -> Iterator[None]:
    """Hold the lock file ``path``. If another process holds it, call ``waiting`` once and wait.

    The file is removed on release. Raises StorageError where it cannot be written.
    """
    with storage_errors(str(path.parent), elsewhere="set EDGEDEC_HOME to another directory"):
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = _acquire(path, waiting)
    try:
        yield
    finally:
        with suppress(OSError):  # Windows refuses to remove an open file; an empty lock file does no harm
            path.unlink()
        os.close(descriptor)


def _acquire(path: Path, waiting: Callable[[], None]) -> int:
    told = False
    while True:
        # Do not follow a link: whoever placed it could have any file created or locked.
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o644)
        try:
            if not _try(descriptor):
                if not told:
                    waiting()
                    told = True
                _wait(descriptor)
            if _is_still(path, descriptor):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _is_still(path: Path, descriptor: int) -> bool:
    """Return whether ``path`` still names the locked file; its last holder may have removed it."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False
