"""Drafters that belong to a model are found by the hash of its weights; another model's are refused."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from edgedec.bundle.drafter_manifest import HEAD, TABLES, Target
from edgedec.bundle.manifest import Manifest
from edgedec.core.errors import BadFileError
from edgedec.disk.listed_files import FileEntry
from edgedec.drafters import artifacts
from edgedec.drafters.artifacts import artifact, new_artifact
from tests.session.parrot import load_parrot


@pytest.fixture
def manifest(tmp_path: Path) -> Manifest:
    folder = tmp_path / "model"
    folder.mkdir()
    return load_parrot(folder).manifest


def made(manifest: Manifest, home: Path, content: bytes = b"answers", kind: str = TABLES) -> Path:
    with new_artifact(manifest, kind, home, {"licence": "apache-2.0"}) as folder:
        (folder / "table.bin").write_bytes(content)
    found = artifact(manifest, kind, home)
    assert found is not None
    return found


def test_a_companion_is_found_without_being_named(manifest: Manifest, tmp_path: Path) -> None:
    assert artifact(manifest, TABLES, tmp_path) is None
    assert artifact(manifest, TABLES, None) is None
    path = made(manifest, tmp_path)
    assert path == tmp_path / "drafters" / ("0" * 16) / "tables"
    assert (path / "table.bin").read_bytes() == b"answers"
    assert artifact(manifest, HEAD, tmp_path) is None


def test_the_one_made_here_comes_before_the_one_shipped(
    manifest: Manifest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shipped = made(manifest, tmp_path / "package", b"shipped")
    monkeypatch.setattr(artifacts, "_shipped", lambda: tmp_path / "package" / "drafters")
    assert artifact(manifest, TABLES, None) == shipped
    assert artifact(manifest, TABLES, tmp_path / "home") == shipped
    own = made(manifest, tmp_path / "home")
    assert artifact(manifest, TABLES, tmp_path / "home") == own != shipped


def test_the_one_in_the_bundle_comes_between_them(
    manifest: Manifest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bundle carries one of each kind, under no hash: it is of the bundle's own model, or refused."""
    shipped = made(manifest, tmp_path / "package", b"shipped")
    monkeypatch.setattr(artifacts, "_shipped", lambda: tmp_path / "package" / "drafters")
    bundle = tmp_path / "bundle"
    shutil.copytree(shipped, bundle / "drafters" / TABLES)
    assert artifact(manifest, TABLES, tmp_path / "home", bundle) == bundle / "drafters" / TABLES
    own = made(manifest, tmp_path / "home")
    assert artifact(manifest, TABLES, tmp_path / "home", bundle) == own
    other = replace(manifest, files={"weights.bin": FileEntry(1000, "1" * 64)})
    with pytest.raises(BadFileError, match="belongs to other weights of parrot"):
        artifact(other, TABLES, tmp_path / "home", bundle)


def test_the_folder_of_those_shipped_is_in_the_package_of_models() -> None:
    folder = artifacts._shipped()
    assert folder is not None
    assert (folder.parent / "catalogue.toml").is_file()


def test_another_model_finds_none(manifest: Manifest, tmp_path: Path) -> None:
    made(manifest, tmp_path)
    other = replace(manifest, files={"weights.bin": FileEntry(1000, "1" * 64)})
    assert artifact(other, TABLES, tmp_path) is None


def test_one_that_was_moved_to_another_model_is_refused(manifest: Manifest, tmp_path: Path) -> None:
    path = made(manifest, tmp_path)
    other = replace(manifest, files={"weights.bin": FileEntry(1000, "1" * 64)})
    shutil.copytree(path, tmp_path / "drafters" / ("1" * 16) / "tables")
    with pytest.raises(BadFileError, match="belongs to other weights of parrot"):
        artifact(other, TABLES, tmp_path)


def test_a_hash_that_begins_alike_is_compared_whole(manifest: Manifest, tmp_path: Path) -> None:
    made(manifest, tmp_path)
    other = replace(manifest, files={"weights.bin": FileEntry(1000, "0" * 63 + "1")})
    with pytest.raises(BadFileError, match="belongs to other weights"):
        artifact(other, TABLES, tmp_path)


def test_one_in_the_place_of_another_kind_is_refused(manifest: Manifest, tmp_path: Path) -> None:
    path = made(manifest, tmp_path)
    path.rename(path.with_name(HEAD))
    with pytest.raises(BadFileError, match="of the kind tables, not head"):
        artifact(manifest, HEAD, tmp_path)


def test_one_that_fails_in_the_making_leaves_the_old_one(manifest: Manifest, tmp_path: Path) -> None:
    path = made(manifest, tmp_path, b"old")

    def interrupted() -> None:
        with new_artifact(manifest, TABLES, tmp_path, {}) as folder:
            (folder / "table.bin").write_bytes(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert artifact(manifest, TABLES, tmp_path) == path
    assert (path / "table.bin").read_bytes() == b"old"
    assert [one.name for one in path.parent.iterdir()] == ["tables"]


def test_the_files_count_for_the_target_of_a_gguf_bundle(manifest: Manifest) -> None:
    gguf = replace(manifest, kind="gguf", files={"model.gguf": FileEntry(1000, "2" * 64)})
    assert Target.of(gguf).sha256 == "2" * 64
