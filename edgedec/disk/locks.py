"""Lock a file between processes, alone or with others.

The operating system releases a lock when its holder dies.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from edgedec.core.errors import StorageError
from edgedec.disk.files import storage_errors
from edgedec.system.files import NO_LINKS, lock

_MOST_NOTE_BYTES = 200
_ANOTHER_HOME = "set EDGEDEC_HOME to another directory"

@contextmanager
def exclusive(path: Path, waiting: Callable[[], None]) -> Iterator[None]:
    """Hold the lock file ``path`` alone. If another process holds it, call ``waiting`` once and wait.

    The file is removed on release. Raises StorageError where it cannot be written.
    """
    with _errors_of(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = _acquire(path, waiting)
    with _removed_and_closed(path, descriptor):
        yield


@contextmanager
def free(path: Path) -> Iterator[bool]:
    """Hold the lock file ``path`` alone if nobody does now; yields whether that is so. See ``claimed``."""
    with _errors_of(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    with claimed(path, "") as holder:
        yield holder is None


@contextmanager
def claimed(path: Path, note: str, *, elsewhere: str = _ANOTHER_HOME) -> Iterator[str | None]:
    """Hold the lock file ``path`` alone if nobody holds it now, with ``note`` in it.

    Yields None, or the note of whoever holds it, "" where it cannot be read. The file is removed on release.
    Raises StorageError, with the hint ``elsewhere``, where it cannot be written.
    """
    with _errors_of(path, elsewhere):
        descriptor = _opened(path)
        if not lock(descriptor) or not _is_still(path, descriptor):
            theirs = _note(descriptor)
            os.close(descriptor)
            descriptor = -1
        else:
            os.ftruncate(descriptor, 0)
            os.write(descriptor, note.encode())
    if descriptor < 0:
        yield theirs
        return
    with _removed_and_closed(path, descriptor):
        yield None


def _note(descriptor: int) -> str:
    """Return what the holder of an open lock file wrote into it."""
    try:
        os.lseek(descriptor, 0, os.SEEK_SET)
        return os.read(descriptor, _MOST_NOTE_BYTES).decode("utf-8", "replace")
    except OSError:  # Windows keeps others from reading what is locked
        return ""


def held(path: Path) -> bool:
    """Return whether some process holds the lock file ``path`` now."""
    try:
        descriptor = os.open(path, os.O_RDONLY | NO_LINKS)
    except OSError:
        return False
    try:
        return not lock(descriptor)
    finally:
        os.close(descriptor)


class Share:
    """A share of the lock file ``path``: many processes may have one, none while another is alone there."""

    def __init__(self, path: Path) -> None:
        """Wait for whoever is alone there. Raises StorageError where the file cannot be written."""
        with _errors_of(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            self._descriptor = _acquire(path, lambda: None, share=True)

    def release(self) -> None:
        """Give the share back; once is enough."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


@contextmanager
def _errors_of(path: Path, elsewhere: str = _ANOTHER_HOME) -> Iterator[None]:
    try:
        with storage_errors(str(path.parent), elsewhere=elsewhere):
            yield
    except OSError as error:  # a file system of its own kind, as of a kernel's facts
        raise StorageError(f"cannot write {path.parent}: {error.strerror}", hint=elsewhere) from error


@contextmanager
def _removed_and_closed(path: Path, descriptor: int) -> Iterator[None]:
    try:
        yield
    finally:
        with suppress(OSError):  # Windows refuses to remove an open file; an empty lock file does no harm
            path.unlink()
        os.close(descriptor)


def _acquire(path: Path, waiting: Callable[[], None], *, share: bool = False) -> int:
    told = False
    while True:
        descriptor = _opened(path)
        try:
            if not lock(descriptor, share=share):
                if not told:
                    waiting()
                    told = True
                lock(descriptor, share=share, wait=True)
            if _is_still(path, descriptor):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _opened(path: Path) -> int:
    # Do not follow a link: whoever placed it could have any file created or locked.
    return os.open(path, os.O_RDWR | os.O_CREAT | NO_LINKS, 0o644)


def _is_still(path: Path, descriptor: int) -> bool:
    """Return whether ``path`` still names the locked file; its last holder may have removed it."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False
