"""``device.json`` survives the round trip; a hostile one, and files that do not fit it, are refused."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import pytest

from edgedec.bundle.device_folder import DEVICE, CarriedDrafter, DeviceFolder
from edgedec.bundle.drafter_manifest import Target
from edgedec.core.errors import BadFileError, NotFoundError
from edgedec.disk.listed_files import FileEntry
from tests.bundle import hostile
from tests.bundle.hostile import HASH, edit

NAMES = (
    "manifest.json",
    "drafters/head/head.onnx",
    "models/small/manifest.json",
    "models/small/drafters/trim/keep.i32",
    "maps/small/to_target.i32",
    "maps/small/to_draft.i32",
)


def make_folder(directory: Path) -> DeviceFolder:
    for name in NAMES:
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    made = DeviceFolder(
        "android",
        Target("tiny", hashlib.sha256(b"weights").hexdigest(), 300),
        (CarriedDrafter("head", "drafters/head"), CarriedDrafter("model", "models/small", "maps/small")),
        {name: FileEntry.of(directory / name) for name in NAMES},
    )
    made.save(directory)
    return made


def test_a_folder_is_read_as_it_was_written(tmp_path: Path) -> None:
    made = make_folder(tmp_path)
    assert DeviceFolder.load(tmp_path, verify=True) == made
    assert made.total_bytes == sum(map(len, NAMES))


def test_a_bundle_is_no_device_folder(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match=r"no EdgeDec device folder at .*device\.json"):
        DeviceFolder.load(tmp_path)


ONE = {"bytes": 1, "sha256": HASH}
HOSTILE: list[tuple[tuple[str, ...], Any]] = [
    *hostile.FILES,
    (("format",), "edgedec-bundle"),
    (("format",), ...),
    (("version",), 0),
    (("device",), "x\x1b[2J"),
    (("target", "sha256"), "../" * 20),
    (("target", "vocab_size"), True),
    (("files", "device.json"), ONE),
    (("files", "models/../../secret"), ONE),
    (("files", "models//secret"), ONE),
    (("files", "models/.hidden"), ONE),
    (("files", "a/b/c/d/e/f"), ONE),
    (("files", "a/"), ONE),
    (("files", "absent/file"), ONE),
    (("files", "manifest.json"), ...),
    (("files", "drafters/head/head.onnx", "bytes"), -7),
    (("drafters",), {}),
    (("drafters",), [7]),
    (("drafters",), [{"kind": "head", "path": "drafters/head", "maps": None}] * 17),
    (("drafters",), [{"kind": "another", "path": "drafters/head", "maps": None}]),
    (("drafters",), [{"kind": "head", "path": "drafters/tables", "maps": None}]),
    (("drafters",), [{"kind": "head", "path": "models/small", "maps": None}]),
    (("drafters",), [{"kind": "model", "path": "../models/small", "maps": None}]),
    (("drafters",), [{"kind": "model", "path": "models/small", "maps": "drafters/head"}]),
    (("drafters",), [{"kind": "model", "path": "models/small", "maps": "maps/other"}]),
    (("drafters",), [{"kind": "model", "path": "models/small", "maps": 7}]),
    (("drafters",), [{"kind": "model", "path": "models/small"}]),
]


def test_a_list_of_too_many_files_is_refused(tmp_path: Path) -> None:
    make_folder(tmp_path)
    edit(tmp_path / DEVICE, ("files",), {f"file{number}": ONE for number in range(1001)})
    with pytest.raises(BadFileError, match="more than 1000 files"):
        DeviceFolder.load(tmp_path)


def test_a_file_that_changed_is_refused(tmp_path: Path) -> None:
    make_folder(tmp_path)
    path = tmp_path / "models" / "small" / "manifest.json"
    path.write_text(path.read_text().upper())
    DeviceFolder.load(tmp_path)
    with pytest.raises(BadFileError, match=r"models/small/manifest\.json .* fails its SHA-256"):
        DeviceFolder.load(tmp_path, verify=True)
    path.unlink()
    with pytest.raises(BadFileError, match=r"lacks models/small/manifest\.json"):
        DeviceFolder.load(tmp_path)


@pytest.mark.parametrize("linked", ["drafters/head/head.onnx", "drafters/head"])
def test_a_file_or_folder_that_leads_elsewhere_is_refused(tmp_path: Path, linked: str) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    make_folder(inside)
    os.rename(inside / linked, tmp_path / "elsewhere")
    (inside / linked).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(BadFileError, match="leads out of it"):
        DeviceFolder.load(inside)
