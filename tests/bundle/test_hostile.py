"""Hostile manifests of every kind are refused in one clear line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from edgedec.bundle.device_folder import DEVICE, DeviceFolder
from edgedec.bundle.drafter_manifest import DrafterManifest
from edgedec.bundle.manifest import Manifest
from edgedec.core.errors import BadFileError, UnsupportedError
from tests.bundle import test_device_folder, test_drafter_manifest, test_manifest
from tests.bundle.hostile import TEXTS, edit

KINDS: dict[str, tuple[Any, str, Any, Any]] = {
    "bundle": (test_manifest.make_bundle, "manifest.json", Manifest, test_manifest.HOSTILE),
    "drafter": (
        test_drafter_manifest.make_drafter, "drafter.json", DrafterManifest, test_drafter_manifest.HOSTILE,
    ),
    "device": (test_device_folder.make_folder, DEVICE, DeviceFolder, test_device_folder.HOSTILE),
}  # fmt: skip
"""How one is made, its file, its class, and fields that it cannot have."""


@pytest.mark.parametrize(
    ("kind", "path", "value"), [(kind, *case) for kind, (*_, cases) in KINDS.items() for case in cases]
)
def test_a_field_is_refused(tmp_path: Path, kind: str, path: tuple[str, ...], value: Any) -> None:
    make, name, manifest, _ = KINDS[kind]
    make(tmp_path)
    edit(tmp_path / name, path, value)
    with pytest.raises(BadFileError) as caught:
        manifest.load(tmp_path)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("text", TEXTS)
def test_a_text_is_refused(tmp_path: Path, kind: str, text: str) -> None:
    _, name, manifest, _ = KINDS[kind]
    (tmp_path / name).write_text(text)
    with pytest.raises(BadFileError, match=rf"{name} of the .* is broken"):
        manifest.load(tmp_path)


@pytest.mark.parametrize("kind", KINDS)
def test_every_truncation_is_refused(tmp_path: Path, kind: str) -> None:
    make, _, manifest, _ = KINDS[kind]
    text = make(tmp_path).to_json()
    for end in range(0, len(text) - 2, 5):
        with pytest.raises(BadFileError):
            manifest.from_json(text[:end])


@pytest.mark.parametrize("kind", ["drafter", "device"])
def test_another_version_is_said(tmp_path: Path, kind: str) -> None:
    make, name, manifest, _ = KINDS[kind]
    make(tmp_path)
    edit(tmp_path / name, ("version",), 2)
    with pytest.raises(UnsupportedError, match="version 2, and this EdgeDec reads version 1"):
        manifest.load(tmp_path)
