"""Weights are in the page cache before passes read them."""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
from pathlib import Path

import pytest

from edgedec.core.errors import BackendError
from edgedec.kernels import library

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="mincore(2) says what the cache holds")
MIB = 1 << 20


def cached(file: Path) -> list[bool]:
    """Say for each MiB of a file whether the cache holds its first page; asking does not fetch it."""
    with file.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_COPY) as pages:
        held = (ctypes.c_ubyte * (len(pages) // mmap.PAGESIZE))()
        first = ctypes.c_char.from_buffer(pages)
        address = ctypes.c_void_p(ctypes.addressof(first))
        assert ctypes.CDLL(None).mincore(address, ctypes.c_size_t(len(pages)), held) == 0
        del first
    return [bool(page & 1) for page in held[:: MIB // mmap.PAGESIZE]]


@pytest.fixture
def uncached(tmp_path: Path) -> Path:
    """Make a file of 12 MiB of which the cache holds nothing."""
    file = tmp_path / "weights.bin"
    with file.open("wb") as stream:
        stream.write(os.urandom(12 * MIB))
        stream.flush()
        os.fsync(stream.fileno())
        os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    if any(cached(file)):
        pytest.skip("files of this file system live in memory")
    return file


def test_a_file_is_read_from_the_first_byte_on(uncached: Path) -> None:
    library.read_ahead(uncached, 7 * MIB)
    held = cached(uncached)
    assert held[7:] == [True] * 5
    assert not held[0]
    library.read_ahead(uncached, 0)
    assert all(cached(uncached))


def test_what_cannot_be_read_is_left_alone(tmp_path: Path) -> None:
    library.read_ahead(tmp_path / "none.bin", 0)
    (tmp_path / "empty.bin").touch()
    library.read_ahead(tmp_path / "empty.bin", 0)
    library.read_ahead(tmp_path / "empty.bin", 4 * MIB)


def test_a_library_of_an_older_version_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "load", lambda path: object())
    with pytest.raises(BackendError, match="of an older version"):
        library.read_ahead(tmp_path / "weights.bin", 0)
