"""Files that keep the tables of drafters: one per model, readable by its owner alone.

Layout: a line that names the format and its version; SHA-256 of all that follows; the key of its
model; then for each drafter its name and its knowledge, each behind its length (u32, little endian). The
whole is compressed by zlib behind the hash.
"""

from __future__ import annotations

import hashlib
import os
import struct
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from edgedec.disk.files import atomic_path

MOST_BYTES = 8 << 20
"""Bound of a file and of its contents: more is neither written nor read."""

_MAGIC = b"edgedec drafts 1\n"
_LENGTH = struct.Struct("<I")
_HASH_BYTES = 32
_CHUNK = 1 << 16


def write_history(file: Path, key: str, knowledge: Iterable[tuple[str, bytes]]) -> None:
    """Replace ``file`` by the ``saved`` bytes of drafters, by name; ``key`` identifies the model.

    The entries of ``knowledge`` are read one after the other, compressed and let go: all at once would take
    many times the memory of the drafters. Those that do not fit ``MOST_BYTES`` are left out. Raises
    StorageError.
    """
    with atomic_path(file) as temporary:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(_MAGIC + bytes(_HASH_BYTES))
            packer, digest = zlib.compressobj(1), hashlib.sha256()
            for piece in _pieces(key, knowledge):
                for start in range(0, len(piece), _CHUNK):
                    _write(stream, digest, packer.compress(piece[start : start + _CHUNK]))
                del piece  # before the next one is made
            _write(stream, digest, packer.flush())
            stream.seek(len(_MAGIC))
            stream.write(digest.digest())


def _pieces(key: str, knowledge: Iterable[tuple[str, bytes]]) -> Iterator[bytes]:
    yield _packed(key.encode())
    room = MOST_BYTES - 4096
    for name, data in knowledge:
        if len(data) <= room:
            room -= len(data)
            yield _packed(name.encode())
            yield _LENGTH.pack(len(data))
            yield data
        del data


def _write(stream: BinaryIO, digest: hashlib._Hash, data: bytes) -> None:
    digest.update(data)
    stream.write(data)


def read_history(file: Path, key: str) -> dict[str, bytes]:
    """The saved bytes for ``key``, by drafter; empty if there is no file or it is for another key.

    Raises ValueError when it is damaged or something else, OSError when it cannot be read.
    """
    try:
        with file.open("rb") as stream:
            data = stream.read(MOST_BYTES + 1)
    except FileNotFoundError:
        return {}
    start = len(_MAGIC) + _HASH_BYTES
    body = data[start:]
    if len(data) > MOST_BYTES or not data.startswith(_MAGIC):
        raise ValueError("it is not a history of this version")
    if hashlib.sha256(body).digest() != data[len(_MAGIC) : start]:
        raise ValueError("it is damaged")
    found, *pairs = _parts(_unpacked(body))
    if found != key.encode():
        return {}
    return {name.decode(): data for name, data in zip(pairs[::2], pairs[1::2], strict=True)}


def _unpacked(body: bytes) -> bytes:
    unpacker = zlib.decompressobj()
    try:
        whole = unpacker.decompress(body, MOST_BYTES)
    except zlib.error as error:
        raise ValueError("it is damaged") from error
    if not unpacker.eof:
        raise ValueError("it is too long")
    return whole


def _packed(data: bytes) -> bytes:
    return _LENGTH.pack(len(data)) + data


def _parts(whole: bytes) -> list[bytes]:
    parts, at = [], 0
    while at + _LENGTH.size <= len(whole):
        (length,) = _LENGTH.unpack_from(whole, at)
        at += _LENGTH.size
        parts.append(whole[at : at + length])
        at += length
    if at != len(whole) or not parts:
        raise ValueError("it is damaged")
    return parts
