"""Unfinished directories that killed processes left beside their target.

A process holds a lock on the directory that it writes, which the operating system releases when it dies.
"""

from __future__ import annotations

import glob
import os
import time
from contextlib import suppress
from pathlib import Path

from edgedec.system.files import LOCKS_FOLDERS, lock

_ABANDONED_S = 60.0
"""Age of the newest file of an abandoned directory, where no lock tells."""


def make_held(directory: Path) -> int | None:
    """Make ``directory`` and mark it as being written until the descriptor is closed.

    Returns None where there are no such marks.
    """
    if not LOCKS_FOLDERS:
        directory.mkdir()
        return None
    while True:
        directory.mkdir(exist_ok=True)
        with suppress(FileNotFoundError):  # another process took it for abandoned before it was marked
            descriptor = os.open(directory, os.O_RDONLY)
            _locked(descriptor, wait=True)
            if _is_at(descriptor, directory):
                return descriptor
            os.close(descriptor)


def remove_leftovers(target: Path) -> None:
    """Delete the unfinished directories beside ``target`` that nobody writes any more."""
    for left in target.parent.glob(f"{glob.escape(target.name)}.partial-{'[0-9a-f]' * 8}"):
        with suppress(OSError):
            if not left.is_symlink() and left.is_dir():
                _remove_abandoned(left)


def _remove_abandoned(directory: Path) -> None:
    if not LOCKS_FOLDERS:
        if _is_old(directory):
            remove_tree(directory)
        return
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        locked = _locked(descriptor)
        if locked or (locked is None and _is_old(directory)):
            remove_tree(directory)
    finally:
        os.close(descriptor)


def _locked(descriptor: int, *, wait: bool = False) -> bool | None:
    """Lock a directory; False if another process holds it, None on a file system without such locks."""
    try:
        return lock(descriptor, wait=wait)
    except OSError:
        return None


def _is_at(descriptor: int, path: Path) -> bool:
    return os.path.samestat(os.fstat(descriptor), os.stat(path))


def _is_old(directory: Path) -> bool:
    newest = max(os.lstat(one).st_mtime for one in (directory, *directory.iterdir()))
    return time.time() - newest >= _ABANDONED_S


def remove_tree(folder: Path) -> None:
    """Remove a folder with all in it, as far as that is possible."""
    import shutil  # imports all formats of archives

    shutil.rmtree(folder, ignore_errors=True)
