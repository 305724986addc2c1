"""Write files so that a crash, a full disk or Ctrl-C leaves the old state intact."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from edgedec.core.errors import StorageError, UsageError
from edgedec.disk.digest import sha256_for

_CHUNK = 1 << 20


TRANSIENT = re.compile(r"\.(partial|old|trash)-[A-Za-z0-9]+$")
"""The ending of the name of something unfinished, moved aside, or about to be deleted."""
DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Errors of a file that has no room to grow: of the disk, or by a limit."""
_IN_THE_WAY = {
    errno.EEXIST: "a file is in the way",
    errno.ENOTDIR: "a file is in the way",
    errno.EISDIR: "a directory is in the way",
    errno.ENOTEMPTY: "a directory is in the way",
    errno.ELOOP: "a symbolic link is in the way",
    errno.ENAMETOOLONG: "the name is too long",
}


def check_name(path: Path) -> None:
    """Raise UsageError for a path that is not UTF-8, or that this system has no files for.

    Manifests and runtimes cannot name such a file.
    """
    from edgedec.system.files import wrong_with_name

    if wrong := wrong_with_name(path.name):
        raise UsageError(f"{path.name} cannot be the name of a file: {wrong}", hint="choose another one")
    try:
        str(path.absolute()).encode()
    except UnicodeEncodeError as error:
        shown = str(path).encode("ascii", "backslashreplace").decode()
        raise UsageError(f"the name {shown} is not UTF-8", hint="rename it") from error


@contextmanager
def storage_errors(file: str, *, elsewhere: str = "choose another directory") -> Iterator[None]:
    """Turn errors of a full disk, and of a path that cannot be written, into a StorageError.

    ``file`` names the file for the message. ``elsewhere`` is the hint about another directory.
    """
    try:
        yield
    except OSError as error:
        if error.errno == errno.EFBIG:
            raise StorageError(
                f"{file} grew to the size that this process may write", hint="raise the limit (ulimit -f)"
            ) from error
        if error.errno in DISK_FULL:
            raise StorageError(
                f"no space left on the disk while writing {file}", hint="free some space and run it again"
            ) from error
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise StorageError(f"no permission to write {file}", hint=elsewhere) from error
        if error.errno in _IN_THE_WAY:
            raise StorageError(f"cannot write {file}: {_IN_THE_WAY[error.errno]}", hint=elsewhere) from error
        raise


@contextmanager
def atomic_path(target: Path, *, directory: bool = False) -> Iterator[Path]:
    """Yield a temporary sibling of ``target`` that replaces it when the block ends without an error.

    On any exception (KeyboardInterrupt too) the temporary is removed and ``target`` is left as it was. A
    directory that a killed process left unfinished is removed by the next one for the same target.
    Raises StorageError when the disk is full or not writable.
    """
    with storage_errors(str(target)):
        target.parent.mkdir(parents=True, exist_ok=True)
        if directory:
            with temporary_beside(target) as temporary:
                yield temporary
                _replace(temporary, target)
            return
        temporary = _partial(target)
        try:
            yield temporary
            _replace(temporary, target)
        finally:
            _remove(temporary)


@contextmanager
def temporary_beside(target: Path) -> Iterator[Path]:
    """Yield a new directory beside ``target`` that is removed at the end.

    Those that killed processes left there are removed first.
    """
    from edgedec.disk.leftovers import make_held, remove_leftovers  # not every command writes folders

    remove_leftovers(target)
    temporary, held = _partial(target), None
    try:
        held = make_held(temporary)
        yield temporary
    finally:
        _remove(temporary)
        if held is not None:
            os.close(held)


def _partial(target: Path) -> Path:
    return target.with_name(f"{target.name}.partial-{os.urandom(4).hex()}")


def _replace(temporary: Path, target: Path) -> None:
    if not (temporary.is_dir() and target.is_dir()):
        from edgedec.system.files import replace

        replace(temporary, target)
        return
    # A directory cannot replace a full one: move the old one aside, and back if the second rename fails.
    # Ctrl-C may come between any two of these calls.
    old = target.with_name(f"{target.name}.old-{os.urandom(4).hex()}")
    try:
        os.rename(target, old)
        os.rename(temporary, target)
    finally:
        if old.exists() and not target.exists():
            os.rename(old, target)
        _remove(old)


def _remove(path: Path) -> None:
    if path.is_dir():
        from edgedec.disk.leftovers import remove_tree

        remove_tree(path)
    else:
        path.unlink(missing_ok=True)


def sha256_of(path: Path, progress: Callable[[int], None] | None = None) -> str:
    """Return the hex SHA-256 of a file, read in chunks of 1 MiB; ``progress`` gets bytes of each."""
    digest = sha256_for(path.stat().st_size)
    with path.open("rb") as stream:
        while chunk := stream.read(_CHUNK):
            digest.update(chunk)
            if progress:
                progress(len(chunk))
    return digest.hexdigest()
