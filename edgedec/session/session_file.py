"""The file that a conversation is kept in, as bytes: what it says is ``state``'s business.

Two lines, ``edgedec-session 2`` and one JSON object; behind them the cache, if there is one; at the end
SHA-256 of all before it. It is written beside the old file and renamed: whatever ends the process (kill -9
too) leaves the old file or the new one. Only its owner can read it. Version 1 was a JSON object alone.

Both ways go in pieces: the cache is never copied as a whole.
"""

from __future__ import annotations

import glob
import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import BufferedReader, BufferedWriter
from pathlib import Path
from typing import Any

from edgedec.core.errors import (
    BadFileError,
    EdgeDecError,
    NotFoundError,
    Remedy,
    UnsupportedError,
    UsageError,
)
from edgedec.core.files import atomic_path, storage_errors
from edgedec.core.forward import Sink

FORMAT = "edgedec-session"
VERSION = 2
_MAGIC = f"{FORMAT} ".encode()
_MOST_BYTES = 64 << 20
"""Of all but the cache."""
_MOST_FIRST_LINE = 64
_PIECE = 1 << 20
_HASH_BYTES = 32
_ABANDONED_S = 60.0


@dataclass(frozen=True, slots=True)
class Stored:
    """An open file whose hash is right: ``document`` and, where ``body`` stands, ``body_bytes`` of cache."""

    version: int
    document: dict[str, Any]
    body: BufferedReader
    body_bytes: int


class _Hashing:
    """A sink that hashes what it passes on."""

    def __init__(self, stream: BufferedWriter) -> None:
        self._stream = stream
        self.sha256 = hashlib.sha256()

    def write(self, data: memoryview | bytes, /) -> None:
        self.sha256.update(data)
        self._stream.write(data)


def write_state(path: Path, document: Mapping[str, Any], body: Callable[[Sink], None]) -> None:
    """Replace ``path`` when all is written; ``body`` writes the cache. Raises StorageError, UsageError."""
    with storage_errors(str(path)):
        _check_kind(path)
    head = json.dumps(document, ensure_ascii=False)
    with atomic_path(path) as temporary:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as stream:
            hashing = _Hashing(stream)
            hashing.write(f"{FORMAT} {VERSION}\n{head}\n".encode("utf-8", "replace"))
            body(hashing)
            stream.write(hashing.sha256.digest())
            stream.flush()
            os.fsync(descriptor)  # or a power cut could leave the new name without its content


def remove_leftovers(path: Path) -> None:
    """Delete what processes that were killed had written of ``path``, not what another one writes now."""
    for left in path.parent.glob(f"{glob.escape(path.name)}.partial-????????"):
        with suppress(OSError):
            if time.time() - left.stat().st_mtime > _ABANDONED_S:
                left.unlink()


@contextmanager
def open_state(path: Path) -> Iterator[Stored]:
    """Check a file and hand out what is in it. Raises NotFoundError, BadFileError, UsageError for what is no
    file, UnsupportedError for a newer version, EdgeDecError when it cannot be read.
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
    """Nobody waits for a pipe, or reads a device without end."""
    if path.exists() and not path.is_file():
        raise UsageError(f"{path} is not a file", hint="give the name of a file")


def _checked(path: Path, stream: BufferedReader) -> Stored:
    size = os.fstat(stream.fileno()).st_size
    if stream.read(len(_MAGIC)) != _MAGIC:
        stream.seek(0)
        return Stored(1, _json(path, _bounded(path, stream.read(_MOST_BYTES + 1))), stream, 0)
    end = size - _HASH_BYTES
    stream.seek(0)
    if end < len(_MAGIC) or _sha256(stream, end) != stream.read(_HASH_BYTES):
        raise BadFileError(f"{path} is truncated or damaged: its hash is wrong")
    stream.seek(len(_MAGIC))
    version = stream.readline(min(_MOST_FIRST_LINE, end - stream.tell())).rstrip(b"\n")
    if version != str(VERSION).encode():
        raise newer(path, version.decode("utf-8", "replace"))
    line = _bounded(path, stream.readline(min(_MOST_BYTES + 1, end - stream.tell())))
    return Stored(VERSION, _json(path, line), stream, end - stream.tell())


def newer(path: Path, version: object) -> UnsupportedError:
    """What to say of a version that is not known here."""
    return UnsupportedError(
        f"{path} has session format {version!r:.40}, and this EdgeDec reads 1 and {VERSION}",
        hint="a newer EdgeDec may read it",
    )


def _sha256(stream: BufferedReader, count: int) -> bytes:
    """Of the next ``count`` bytes."""
    digest = hashlib.sha256()
    piece = memoryview(bytearray(_PIECE))
    while count > 0 and (got := stream.readinto(piece[: min(count, _PIECE)])):
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
