"""A changed bundle is hashed once, before it is used, and an unchanged one never again."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from edgedec.bundle.manifest import Manifest
from edgedec.bundle.verification import FOLDER, record_path, verify
from edgedec.core.errors import BadFileError
from tests.bundle.hostile import edit
from tests.bundle.test_manifest import FILES, make_bundle

SIZE = sum(map(len, FILES.values()))


def verified(bundle: Path, home: Path) -> int:
    """Verify, and return the bytes that were hashed."""
    return verify(bundle, Manifest.load(bundle), home)


def overwrite(path: Path, *, like: os.stat_result | None = None) -> None:
    """Change one byte in place; ``like``: give the file its old time of modification."""
    at = random.Random(1).randrange(path.stat().st_size)
    with path.open("r+b") as stream:
        stream.seek(at)
        byte = stream.read(1)[0]
        stream.seek(at)
        stream.write(bytes([byte ^ 1]))
    if like:
        os.utime(path, ns=(like.st_atime_ns, like.st_mtime_ns))


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    make_bundle(tmp_path / "bundle")
    return tmp_path / "bundle"


def test_every_file_is_hashed_once_and_then_no_more(bundle: Path, tmp_path: Path) -> None:
    assert [verified(bundle, tmp_path) for _ in range(3)] == [SIZE, 0, 0]


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("same_time", [False, True])
def test_a_byte_that_changed_is_found(bundle: Path, tmp_path: Path, name: str, same_time: bool) -> None:
    verified(bundle, tmp_path)
    overwrite(bundle / name, like=(bundle / name).stat() if same_time else None)
    for _ in range(2):  # a failure is not recorded as a success
        with pytest.raises(BadFileError, match=f"{name} of the bundle fails its SHA-256"):
            verified(bundle, tmp_path)


def test_a_file_that_was_replaced_by_its_like_is_hashed_again(bundle: Path, tmp_path: Path) -> None:
    verified(bundle, tmp_path)
    os.replace(bundle / "weights.bin", tmp_path / "old")
    (bundle / "weights.bin").write_bytes(FILES["weights.bin"])
    assert verified(bundle, tmp_path) == len(FILES["weights.bin"])


def test_a_record_of_other_hashes_counts_for_nothing(bundle: Path, tmp_path: Path) -> None:
    verified(bundle, tmp_path)
    edit(bundle / "manifest.json", ("files", "weights.bin", "sha256"), "0" * 64)
    with pytest.raises(BadFileError, match=r"weights.bin .* fails"):
        verified(bundle, tmp_path)


@pytest.mark.parametrize("record", ["", "[]", "{", '{"weights.bin": 3}', "[" * 100_000])
def test_a_damaged_record_counts_as_none(bundle: Path, tmp_path: Path, record: str) -> None:
    verified(bundle, tmp_path)
    record_path(tmp_path, bundle).write_text(record)
    assert verified(bundle, tmp_path) == SIZE


def test_where_no_record_can_be_written_every_start_verifies(bundle: Path, tmp_path: Path) -> None:
    (tmp_path / FOLDER).write_text("a file is in the way")
    assert [verified(bundle, tmp_path) for _ in range(2)] == [SIZE, SIZE]


def test_every_file_can_be_hashed_again_on_demand(bundle: Path, tmp_path: Path) -> None:
    verified(bundle, tmp_path)
    assert verify(bundle, Manifest.load(bundle), tmp_path, again=True) == SIZE


def test_a_file_that_changes_while_it_is_hashed_is_hashed_again(bundle: Path, tmp_path: Path) -> None:
    def change(stage: str, done: int, total: int) -> None:
        (bundle / "weights.bin").touch()

    verify(bundle, Manifest.load(bundle), tmp_path, progress=change)
    assert verified(bundle, tmp_path) == len(FILES["weights.bin"])


def test_progress_is_of_all_files_together(bundle: Path, tmp_path: Path) -> None:
    seen: list[tuple[str, int, int]] = []
    verify(bundle, Manifest.load(bundle), tmp_path, progress=lambda *step: seen.append(step))
    assert seen[-1] == ("verify", SIZE, SIZE)
    assert [done for _, done, _ in seen] == sorted(done for _, done, _ in seen)


def test_a_file_that_cannot_be_read_is_one_line(bundle: Path, tmp_path: Path) -> None:
    manifest = Manifest.load(bundle)
    (bundle / "weights.bin").unlink()
    with pytest.raises(BadFileError, match=r"weights\.bin of the bundle cannot be read: No such file"):
        verify(bundle, manifest, tmp_path)
