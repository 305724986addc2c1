"""The format of a session file, in bytes; ``saved_session`` knows the meaning.

The file has

1. the line ``edgedec-session 2``,
2. a line with one JSON object, the document,
3. the KV cache, if it is kept,
4. SHA-256 of everything before it.

A new file is written beside the old one and renamed. So the old or the new one is there, even after kill -9.
Only its owner can read it. Behind a symbolic link the real file is replaced, and the link stays. Reading and
writing go in pieces: the KV cache is never copied as a whole.
"""

from __future__ import annotations

import errno
import glob
import hashlib
import json
import os
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from io import BufferedReader, BufferedWriter
from pathlib import Path
from typing import Any

from edgedec.core.errors import (
    BadFileError,
    EdgeDecError,
    NotFoundError,
    Remedy,
    StorageError,
    UnsupportedError,
    UsageError,
)
from edgedec.core.forward import Sink
from edgedec.core.quick_dataclass import dataclass
from edgedec.disk.files import atomic_path, storage_errors

FORMAT = "edgedec-session"
VERSION = 2
_MAGIC = f"{FORMAT} ".encode()
_MOST_BYTES = 64 << 20
"""Size of the document."""
_MOST_FIRST_LINE = 64
_PIECE_BYTES = 1 << 20
_HASH_BYTES = 32
_ABANDONED_S = 60.0


@dataclass(frozen=True, slots=True)
class Stored:
    """An open session file whose hash is right: the document, and the KV cache at ``body``."""

    document: dict[str, Any]
    body: BufferedReader
    body_bytes: int


class _Hashing:
    """A sink that hashes the bytes it passes on."""

    def __init__(self, stream: BufferedWriter) -> None:
        self._stream = stream
        self.sha256 = hashlib.sha256()

    def write(self, data: memoryview | bytes, /) -> None:
        self.sha256.update(data)
        self._stream.write(data)


def write_file(
    path: Path, document: Mapping[str, Any], body: Callable[[Sink], None], *, durable: bool = True
) -> None:
    """Replace the file at ``path`` once all is written; ``body`` writes the KV cache.

    ``durable``: wait for the disk, so that a power cut leaves the old file or the new one, no damaged one.
    Raises StorageError, NotFoundError for a folder that does not exist, and UsageError for a path that is
    there and no file.
    """
    path = placed(path)
    head = json.dumps(document, ensure_ascii=False)
    with atomic_path(path) as temporary:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as stream:
            hashing = _Hashing(stream)
            hashing.write(f"{FORMAT} {VERSION}\n{head}\n".encode("utf-8", "replace"))
            body(hashing)
            stream.write(hashing.sha256.digest())
            stream.flush()
            if durable:
                os.fsync(descriptor)  # or a power cut could leave the new name without its content


def is_session(path: Path) -> bool:
    """Return whether a file begins as a session file does; only its first bytes are read."""
    if not path.is_file():
        return False
    with path.open("rb") as stream:
        return stream.read(len(_MAGIC)) == _MAGIC


def check_place(path: Path) -> None:
    """Find out whether ``write_file`` can write at ``path``, by an empty file beside it that goes away again.

    Raises NotFoundError for a folder that does not exist, StorageError, and UsageError for a path that is
    there and no file.
    """
    real = placed(path)
    probe = real.with_name(f"{real.name}.partial-{secrets.token_hex(4)}")
    try:
        with storage_errors(str(path), elsewhere="give another file"):
            os.close(os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            probe.unlink()
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror}", hint="give another file") from error


def placed(path: Path) -> Path:
    """Return the real path of a file that may be written. Raises NotFoundError, StorageError, UsageError."""
    with storage_errors(str(path), elsewhere="give another file"):
        _check_kind(path)
        real = real_path(path)
        if not real.parent.exists():
            hint = "make it first, or give another file"
            raise NotFoundError(f"there is no folder {real.parent} for {path}", hint=hint)
        if not real.parent.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
    return real


def remove_leftovers(path: Path) -> None:
    """Delete unfinished files that killed processes left beside ``path``, none that may still be written."""
    path = real_path(path)
    for left in path.parent.glob(f"{glob.escape(path.name)}.partial-????????"):
        with suppress(OSError):
            if time.time() - left.stat().st_mtime > _ABANDONED_S:
                left.unlink()


def real_path(path: Path) -> Path:
    """Follow symbolic links, also to a file that does not exist yet. Raises OSError for links in a circle."""
    real = Path(os.path.realpath(path))
    if real.is_symlink():
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
    return real


@contextmanager
def open_file(path: Path) -> Iterator[Stored]:
    """Open a session file and check its hash.

    Raises NotFoundError, BadFileError for a damaged file, UsageError for a path that is no file,
    UnsupportedError for another version, EdgeDecError for a file that cannot be read.
    """
    try:
        _check_kind(path)
        with path.open("rb") as stream:
            yield _checked(path, stream)
    except FileNotFoundError as error:
        raise NotFoundError(
            f"no such file: {path}", hint="save the conversation first", remedy=Remedy("save")
        ) from error
    except OSError as error:
        raise EdgeDecError(f"cannot read {path}: {error.strerror}") from error


def _check_kind(path: Path) -> None:
    """Refuse pipes and devices, which could make the process wait, or read without end."""
    if path.exists() and not path.is_file():
        raise UsageError(f"{path} is not a file", hint="give the name of a file")


def _checked(path: Path, stream: BufferedReader) -> Stored:
    end = os.fstat(stream.fileno()).st_size - _HASH_BYTES
    start = stream.read(_MOST_FIRST_LINE)
    if not start.startswith(_MAGIC):
        raise _without_first_line(path, start)
    stream.seek(0)
    if end < len(_MAGIC) or _sha256(stream, end) != stream.read(_HASH_BYTES):
        raise BadFileError(f"{path} is truncated or damaged: its hash is wrong")
    stream.seek(len(_MAGIC))
    version = stream.readline(min(_MOST_FIRST_LINE, end - stream.tell())).rstrip(b"\n")
    if version != str(VERSION).encode():
        raise _other_version(path, version.decode("utf-8", "replace"))
    line = _bounded(path, stream.readline(min(_MOST_BYTES + 1, end - stream.tell())))
    document = _json(path, line)
    if document.get("format") != FORMAT:
        raise BadFileError(f"{path} is not a saved conversation")
    if (stated := document.get("version")) != VERSION:
        raise _other_version(path, stated)
    return Stored(document, stream, end - stream.tell())


def _without_first_line(path: Path, start: bytes) -> EdgeDecError:
    """Tell a file of format 1, which was a JSON object alone, from a file of another kind."""
    if start.lstrip().startswith(b"{") and _MAGIC.strip() in start:
        return _other_version(path, 1)
    return BadFileError(f"{path} is not a saved conversation")


def _other_version(path: Path, version: object) -> UnsupportedError:
    return UnsupportedError(
        f"{path} has session format {version!r:.40}, and this EdgeDec reads {VERSION}",
        hint="start a new conversation in another file",
    )


def _sha256(stream: BufferedReader, count: int) -> bytes:
    """Hash the next ``count`` bytes."""
    digest = hashlib.sha256()
    piece = memoryview(bytearray(_PIECE_BYTES))
    while count > 0 and (got := stream.readinto(piece[: min(count, _PIECE_BYTES)])):
        digest.update(piece[:got])
        count -= got
    return digest.digest()


def _bounded(path: Path, data: bytes) -> bytes:
    if len(data) > _MOST_BYTES:
        raise BadFileError(f"{path} is too large for a saved conversation")
    return data


def _json(path: Path, data: bytes) -> dict[str, Any]:
    try:
        document = json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:  # an integer of too many digits is only a ValueError
        raise BadFileError(f"{path} is not a saved conversation (not JSON)") from error
    return document if isinstance(document, dict) else {}
