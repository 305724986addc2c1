"""The manifest of a drafter survives the round trip, and a hostile or foreign one is one clear line."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from edgedec.bundle.drafter_manifest import DrafterManifest, Target
from edgedec.core.errors import BadFileError, NotFoundError
from edgedec.disk.listed_files import FileEntry
from tests.bundle import hostile

TARGET = Target("tiny", hashlib.sha256(b"weights").hexdigest(), 300)


def make_drafter(directory: Path) -> DrafterManifest:
    directory.mkdir(exist_ok=True)
    (directory / "table.bin").write_bytes(b"answers")
    files = {"table.bin": FileEntry.of(directory / "table.bin")}
    manifest = DrafterManifest("tables", TARGET, files, {"licence": "apache-2.0", "tokens": 12, "gain": 1.5})
    manifest.save(directory)
    return manifest


def test_a_drafter_is_read_as_it_was_written(tmp_path: Path) -> None:
    made = make_drafter(tmp_path)
    assert DrafterManifest.load(tmp_path) == made
    assert made.total_bytes == 7
    assert made.target.short_hash == TARGET.sha256[:16]


def test_a_folder_without_manifest_holds_no_drafter(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match=r"no EdgeDec drafter at .*drafter\.json"):
        DrafterManifest.load(tmp_path)


HOSTILE: list[tuple[tuple[str, ...], Any]] = [
    *hostile.FILES,
    (("format",), "edgedec-bundle"),
    (("format",), ...),
    (("version",), "1"),
    (("version",), 0),
    (("kind",), "another"),
    (("kind",), ["tables"]),
    (("kind",), "x\x1b[2J"),
    (("target",), None),
    (("target", "name"), "two\nlines"),
    (("target", "sha256"), "0" * 63),
    (("target", "sha256"), "../" * 20),
    (("target", "vocab_size"), 0),
    (("target", "vocab_size"), True),
    (("target", "vocab_size"), 10**30),
    (("files", "a/b"), {"bytes": 1, "sha256": "0" * 64}),
    (("files", "drafter.json"), {"bytes": 1, "sha256": "0" * 64}),
    (("files", "absent"), {"bytes": 1, "sha256": "0" * 64}),
    (("files", "table.bin", "bytes"), -7),
    (("files", "table.bin", "sha256"), "xyz"),
    (("files", "table.bin"), 7),
    (("facts",), {"a": {"b": 1}}),
    (("facts",), ...),
]


def test_a_file_that_changed_is_refused(tmp_path: Path) -> None:
    make_drafter(tmp_path)
    for content, why in ((b"answer", "6 bytes, not 7"), (b"Answers", "fails its SHA-256")):
        (tmp_path / "table.bin").write_bytes(content)
        with pytest.raises(BadFileError, match=why):
            DrafterManifest.load(tmp_path)
    (tmp_path / "table.bin").unlink()
    with pytest.raises(BadFileError, match=r"lacks table\.bin"):
        DrafterManifest.load(tmp_path)


def test_a_file_that_is_not_listed_is_refused(tmp_path: Path) -> None:
    make_drafter(tmp_path)
    (tmp_path / "more.bin").write_bytes(b"unchecked")
    with pytest.raises(BadFileError, match=r"does not list 'more\.bin'"):
        DrafterManifest.load(tmp_path)


def test_a_file_that_leads_elsewhere_is_refused(tmp_path: Path) -> None:
    folder, elsewhere = tmp_path / "drafter", tmp_path / "diary"
    make_drafter(folder)
    elsewhere.write_bytes(b"answers")
    (folder / "table.bin").unlink()
    (folder / "table.bin").symlink_to(elsewhere)
    with pytest.raises(BadFileError, match="leads out of it"):
        DrafterManifest.load(folder)


@pytest.mark.parametrize(
    ("target", "why"),
    [
        (replace(TARGET, sha256="1" * 64), "other weights of tiny"),
        (Target("large", "1" * 64, 300), "belongs to tiny, not to large"),
        (replace(TARGET, vocab_size=301), "for 300 tokens, and tiny has 301"),
    ],
)
def test_a_drafter_of_another_target_is_refused(tmp_path: Path, target: Target, why: str) -> None:
    made = make_drafter(tmp_path)
    made.check_target(TARGET)
    with pytest.raises(BadFileError, match=why):
        made.check_target(target)
