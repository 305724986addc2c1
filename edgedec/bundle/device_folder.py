"""``device.json``: a folder with all that a phone needs of one model, and the hash of each file in it.

The folder is a bundle, so every machine opens it by its ``manifest.json``, and it carries drafters::

    manifest.json, model.onnx, ...    the target; its tokenizer is the table alone
    drafters/KIND/                    what belongs to the target: each as ``drafter_manifest`` has it
    models/NAME/                      the small model that drafts: a bundle, which may carry drafters, too
    maps/NAME/to_target.i32           int32 for each id of that model: the target's id of the same text, or -1
    maps/NAME/to_draft.i32            int32 for each id of the target: that model's id of the same role, or -1
    device.json

Both maps are little-endian. There are none where the two models have the same vocabulary, id by id.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from edgedec.bundle.drafter_manifest import KINDS, Target
from edgedec.bundle.manifest import MANIFEST
from edgedec.core.quick_dataclass import dataclass
from edgedec.disk import listed_files as listed
from edgedec.disk.home import ARTIFACTS
from edgedec.disk.listed_files import FileEntry, FolderKind, ListedFolder, ManifestFields

DEVICE = "device.json"
ANDROID = "android"
DEVICES = (ANDROID,)
"""Kinds of devices that a folder can be made for."""
MODELS, MAPS = "models", "maps"
TO_TARGET, TO_DRAFT = "to_target.i32", "to_draft.i32"
MODEL = "model"
"""The kind of a small model that drafts, beside those of ``drafter_manifest``."""

_FIELDS = ("format", "version", "device", "target", "drafters", "files")
_DEPTH = 5
"""Parts of the longest name: models/NAME/drafters/KIND/FILE."""
_MOST_FILES, _MOST_DRAFTERS = 1000, 16
_FOLDER = FolderKind(DEVICE, "device folder", "export it again", "edgedec-device-folder", depth=_DEPTH)


@dataclass(frozen=True, slots=True)
class CarriedDrafter:
    """A drafter in the folder: its kind, and the folder in it that has its files.

    ``maps``: the folder with the maps between vocabularies, for a model that has another one than the target.
    """

    kind: str
    path: str
    maps: str | None = None


@dataclass(frozen=True, slots=True)
class DeviceFolder(ListedFolder):
    """A folder's table of contents. ``files`` lists every file but ``device.json`` itself, by its path."""

    device: str
    target: Target
    drafters: tuple[CarriedDrafter, ...]
    files: Mapping[str, FileEntry]

    @classmethod
    def load(cls, directory: Path, *, verify: bool = False) -> DeviceFolder:
        """Read and check ``device.json`` in ``directory``, and the sizes of its files.

        ``verify`` compares hashes too. Raises NotFoundError when there is none, BadFileError when it or a
        file is broken, UnsupportedError when it has another version.
        """
        found = cls.from_json(_FOLDER.read(directory))
        _FOLDER.check_all(directory, found.files, verify=verify)
        return found

    @classmethod
    def from_json(cls, text: str) -> DeviceFolder:
        """Decode the text of ``device.json``. Raises BadFileError or UnsupportedError."""
        top = _FOLDER.decoded(text)
        top.check_seal(_FIELDS)
        target = Target.read(top.below("target"))
        table = top.get("files", listed.mapping)
        if len(table) > _MOST_FILES:
            raise _FOLDER.broken(f"it lists more than {_MOST_FILES} files")
        files = _FOLDER.files(table)
        if MANIFEST not in files:
            raise _FOLDER.broken(f"it does not list {MANIFEST}")
        drafters = tuple(_drafter(one, files) for one in top.get("drafters", _objects))
        return cls(top.get("device", listed.text), target, drafters, files)

    def to_json(self) -> str:
        """The text of ``device.json``."""
        data = {
            "device": self.device,
            "target": asdict(self.target),
            "drafters": [asdict(one) for one in self.drafters],
            "files": self.listed(),
        }
        return _FOLDER.text_of(data)

    def save(self, directory: Path) -> None:
        """Write ``device.json`` into ``directory``. Raises StorageError."""
        _FOLDER.save(directory, self.to_json())


def check_carried(bundle: Path) -> None:
    """Raise BadFileError or UnsupportedError for a bundle whose ``device.json`` is damaged, if it has one."""
    if os.path.lexists(bundle / DEVICE):
        DeviceFolder.load(bundle)


def carried_model(bundle: Path) -> Path | None:
    """Return the small model that a bundle carries to draft for it; None where it has none."""
    found = sorted((bundle / MODELS).glob(f"*/{MANIFEST}"))
    return found[0].parent if found else None


def _drafter(value: Any, files: Mapping[str, FileEntry]) -> CarriedDrafter:
    fields = ManifestFields(_FOLDER, "drafters", value)
    kind = fields.get("kind", listed.text)
    if kind not in (*KINDS, MODEL):
        raise _FOLDER.broken(f"a drafter's kind {kind[:40]!r} is none of {', '.join((*KINDS, MODEL))}")
    path = fields.get("path", listed.text)
    maps = fields.get("maps", _text_or_none)
    top = ARTIFACTS if kind in KINDS else MODELS
    _check_inside(path, top, files)
    if maps is not None:
        _check_inside(maps, MAPS, files)
        for name in (TO_TARGET, TO_DRAFT):
            if f"{maps}/{name}" not in files:
                raise _FOLDER.broken(f"it does not list {name} of a drafter")
    return CarriedDrafter(kind, path, maps)


def _check_inside(path: str, top: str, files: Mapping[str, FileEntry]) -> None:
    """Raise BadFileError unless ``path`` is a folder right below ``top`` that has files."""
    if path.split("/")[:-1] != [top] or not any(name.startswith(f"{path}/") for name in files):
        raise _FOLDER.broken(f"a drafter's folder {path[:40]!r} is not one of {top}")


def _objects(value: Any) -> list[Any]:
    if not isinstance(value, list) or len(value) > _MOST_DRAFTERS:
        raise TypeError("is not a short list")
    return value


def _text_or_none(value: Any) -> str | None:
    return None if value is None else listed.text(value)
