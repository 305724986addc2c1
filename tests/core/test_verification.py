"""A changed bundle is hashed once, in the background, and an unchanged one never again."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from edgedec.core.errors import BadFileError
from edgedec.core.manifest import Manifest
from edgedec.core.verification import FOLDER, Verification, record_path
from tests.core.test_manifest import FILES, make_bundle

SIZE = sum(map(len, FILES.values()))


def verify(bundle: Path, home: Path) -> int:
    """Verify to the end, and return the bytes that were hashed."""
    found = Verification(bundle, Manifest.load(bundle), home)
    found.wait()
    return found.done_bytes


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
    assert [verify(bundle, tmp_path) for _ in range(3)] == [SIZE, 0, 0]


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("same_time", [False, True])
def test_a_byte_that_changed_is_found(bundle: Path, tmp_path: Path, name: str, same_time: bool) -> None:
    verify(bundle, tmp_path)
    overwrite(bundle / name, like=(bundle / name).stat() if same_time else None)
    for _ in range(2):  # a failure is not recorded as a success
        found = Verification(bundle, Manifest.load(bundle), tmp_path)
        with pytest.raises(BadFileError, match=f"{name} of the bundle fails its SHA-256"):
            found.wait()
        with pytest.raises(BadFileError):
            found.check()
        assert found.done_bytes == len(FILES[name])


def test_a_file_that_was_replaced_by_its_like_is_hashed_again(bundle: Path, tmp_path: Path) -> None:
    verify(bundle, tmp_path)
    os.replace(bundle / "weights.bin", tmp_path / "old")
    (bundle / "weights.bin").write_bytes(FILES["weights.bin"])
    assert verify(bundle, tmp_path) == len(FILES["weights.bin"])


def test_a_record_of_other_hashes_counts_for_nothing(bundle: Path, tmp_path: Path) -> None:
    verify(bundle, tmp_path)
    text = (bundle / "manifest.json").read_text()
    wrong = "0" * 64
    right = Manifest.load(bundle).files["weights.bin"].sha256
    (bundle / "manifest.json").write_text(text.replace(right, wrong))
    with pytest.raises(BadFileError, match=r"weights.bin .* fails"):
        verify(bundle, tmp_path)


@pytest.mark.parametrize("record", ["", "[]", "{", '{"weights.bin": 3}', "[" * 100_000])
def test_a_damaged_record_counts_as_none(bundle: Path, tmp_path: Path, record: str) -> None:
    verify(bundle, tmp_path)
    record_path(tmp_path, bundle).write_text(record)
    assert verify(bundle, tmp_path) == SIZE


def test_where_no_record_can_be_written_every_start_verifies(bundle: Path, tmp_path: Path) -> None:
    (tmp_path / FOLDER).write_text("a file is in the way")
    assert [verify(bundle, tmp_path) for _ in range(2)] == [SIZE, SIZE]


def test_every_file_can_be_hashed_again_on_demand(bundle: Path, tmp_path: Path) -> None:
    verify(bundle, tmp_path)
    again = Verification(bundle, Manifest.load(bundle), tmp_path, again=True)
    again.wait()
    assert (again.done_bytes, again.total_bytes) == (SIZE, SIZE)


def test_a_bundle_that_is_replaced_meanwhile_does_not_fail(bundle: Path, tmp_path: Path) -> None:
    """The files that were there at the start are hashed, not those that took their place."""
    manifest = Manifest.load(bundle)
    for name, data in FILES.items():
        (bundle / f"new-{name}").write_bytes(data[::-1])
    found = Verification(bundle, manifest, tmp_path)
    for name in FILES:
        os.replace(bundle / f"new-{name}", bundle / name)
    found.wait()


def test_progress_ends_with_everything(bundle: Path, tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    with (bundle / "weights.bin").open("wb") as stream:
        stream.truncate(1 << 26)  # slow enough to be seen
    entry = Manifest.from_json((bundle / "manifest.json").read_text())
    found = Verification(bundle, entry, tmp_path)
    with pytest.raises(BadFileError):
        found.wait(lambda done, total: seen.append((done, total)))
    assert seen[-1][0] == found.done_bytes


def test_giving_up_records_nothing(bundle: Path, tmp_path: Path) -> None:
    with (bundle / "weights.bin").open("wb") as stream:
        stream.truncate(1 << 27)
    found = Verification(bundle, Manifest.from_json((bundle / "manifest.json").read_text()), tmp_path)
    found.stop()
    found.wait()
    assert not record_path(tmp_path, bundle).exists()
