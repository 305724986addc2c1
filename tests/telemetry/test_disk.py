"""Reading pieces of a file to see how fast that is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from edgedec.core.errors import StorageError
from edgedec.telemetry import disk


@pytest.mark.parametrize("size", [100, 4096, 70_000, 1 << 22])
def test_pieces_of_any_size_are_read(size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, read = tmp_path / "file", []
    path.write_bytes(bytes(1 << 22))
    monkeypatch.setattr(disk, "_MOST_BYTES", 1 << 20)
    plain = os.preadv

    def counted(file: int, rooms: list[object], start: int) -> int:
        read.append((start, plain(file, rooms, start)))
        return read[-1][1]

    monkeypatch.setattr(os, "preadv", counted)
    assert disk.read_rate(path, size) > 0
    assert len(read) >= 8
    assert all(start % 4096 == 0 and size <= count < size + 4096 for start, count in read)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="nothing"):
        disk.read_rate(tmp_path / "nothing", 4096)
