"""Writes the folder of a device: a target, its drafters, maps between vocabularies, and ``device.json``."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from pathlib import Path

from edgedec.bundle.device_folder import (
    MAPS,
    MODEL,
    MODELS,
    TO_DRAFT,
    TO_TARGET,
    CarriedDrafter,
    DeviceFolder,
)
from edgedec.bundle.drafter_manifest import TRIM, Target
from edgedec.bundle.manifest import Manifest
from edgedec.bundle.verification import verify
from edgedec.core.errors import UsageError
from edgedec.core.progress import Progress, silent
from edgedec.core.quick_dataclass import dataclass
from edgedec.disk.files import atomic_path, storage_errors
from edgedec.disk.home import ARTIFACTS
from edgedec.disk.listed_files import FileEntry
from edgedec.drafters.artifacts import DrafterArtifact, artifacts
from edgedec.drafters.pairing import paired, require
from edgedec.drafters.vocabulary_maps import vocabulary_maps
from edgedec.export.device.parts import Files, check_suits, place_bundle, place_drafter
from edgedec.export.writer import check_apart, check_space, check_target
from edgedec.text.tokenizer import Tokenizer

_STRANGE = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True)
class DeviceOrder:
    """The contents of a folder: the target's bundle, its drafters, and the bundle of a small model or None.

    ``home`` keeps the drafters of the small model, and records of verifications.
    """

    device: str
    bundle: Path
    drafters: Sequence[DrafterArtifact]
    model: Path | None
    home: Path


def write_device_folder(order: DeviceOrder, out: Path, report: Progress = silent) -> DeviceFolder:
    """Write the folder ``out`` completely or not at all, and return its table of contents.

    Raises UsageError for an ``out`` that is none, UnsupportedError for models that a device cannot run or
    that cannot draft for the target, BadFileError for a damaged file, StorageError.
    """
    check_target(out)
    check_order(order, out, report)
    with atomic_path(out, directory=True) as directory, storage_errors(str(out)):
        return place_parts(order, directory, report)


def place_parts(order: DeviceOrder, directory: Path, report: Progress) -> DeviceFolder:
    """Put all parts into the empty ``directory``, and return the table of contents, which is there too.

    Raises as ``write_device_folder`` does.
    """
    work = _Work(directory, report)
    target = work.bundle(order.bundle, "")
    for found in order.drafters:
        work.drafter(found, "")
    if order.model:
        work.model(order.model, target, order.bundle, order.home)
    made = DeviceFolder(order.device, Target.of(target), tuple(work.drafters), work.files)
    DeviceFolder.from_json(made.to_json())  # one that cannot be loaded must not be written
    made.save(directory)
    return made


def check_order(order: DeviceOrder, out: Path, report: Progress) -> None:
    """Check the bundles of an order, and that there is room. Raises as ``write_device_folder`` does."""
    bundles = [order.bundle, *([order.model] if order.model else [])]
    check_apart(out, bundles)
    for bundle in bundles:
        manifest = Manifest.load(bundle)
        check_suits(manifest)
        verify(bundle, manifest, order.home, progress=report)
    _check_room(out, bundles)


class _Work:
    """Files in the folder so far, and the drafters for its target."""

    def __init__(self, directory: Path, report: Progress) -> None:
        self._directory, self._report = directory, report
        self.files: Files = {}
        self.drafters: list[CarriedDrafter] = []

    def bundle(self, bundle: Path, below: str) -> Manifest:
        """Put a bundle into the folder ``below``, which is "" for the target."""
        place = self._directory / below
        if not below:
            place.rmdir()
        manifest, files = place_bundle(bundle, place, self._report)
        self._add(below, files)
        return manifest

    def drafter(self, found: DrafterArtifact, below: str) -> None:
        """Put a drafter into the bundle at ``below``."""
        path = _joined(below, f"{ARTIFACTS}/{found.kind}")
        self._add(path, place_drafter(found, self._directory / path, self._report))
        if not below:
            self.drafters.append(CarriedDrafter(found.kind, path))

    def model(self, model: Path, target: Manifest, target_bundle: Path, home: Path) -> None:
        """Put a small model into the folder, with its trimmed head and the maps, if it has and needs them."""
        name = _folder_name(model)
        path = f"{MODELS}/{name}"
        maps = self._maps(model, target, target_bundle, name)
        placed = self.bundle(model, path)
        for found in artifacts(Target.of(placed), home, model):
            if found.kind == TRIM:
                found.checked(Target.of(placed))
                self.drafter(found, path)
        self.drafters.append(CarriedDrafter(MODEL, path, maps))

    def _maps(self, model: Path, target: Manifest, target_bundle: Path, name: str) -> str | None:
        """Write the maps between the vocabularies; None where they are the same. Raises UnsupportedError."""
        draft = Manifest.load(model)
        if Target.of(draft) == Target.of(target):
            raise UsageError(f"{target.name} does not draft for itself", hint="name a smaller model")
        theirs, mine = (
            Tokenizer.load(bundle, manifest.tokenizer, manifest.tokenizer_sha256)
            for bundle, manifest in ((target_bundle, Manifest.load(target_bundle)), (model, draft))
        )
        pairing = paired(theirs, mine)
        require(pairing, target.name, draft.name)
        if pairing.same:
            return None
        maps = vocabulary_maps(theirs, mine, (target.spec.vocab_size, draft.spec.vocab_size))
        folder = f"{MAPS}/{name}"
        (self._directory / folder).mkdir(parents=True)
        for file, ids in ((TO_TARGET, maps.to_target), (TO_DRAFT, maps.to_draft)):
            data = ids.astype("<i4").tobytes()
            (self._directory / folder / file).write_bytes(data)
            self.files[f"{folder}/{file}"] = FileEntry(len(data), hashlib.sha256(data).hexdigest())
        return folder

    def _add(self, below: str, files: Files) -> None:
        self.files |= {_joined(below, name): entry for name, entry in files.items()}


def _joined(below: str, name: str) -> str:
    return f"{below}/{name}" if below else name


def _folder_name(model: Path) -> str:
    """Return the name of a small model's folder, of characters that every device takes."""
    return _STRANGE.sub("-", model.resolve().name).strip("._-")[:80] or MODEL


def _check_room(out: Path, bundles: Sequence[Path]) -> None:
    """Raise StorageError where files have to be copied and do not fit."""
    place = out.absolute()
    while not place.is_dir():
        place = place.parent
    disk = place.stat().st_dev
    apart = [bundle for bundle in bundles if bundle.stat().st_dev != disk]
    check_space(out, sum(Manifest.load(bundle).total_bytes for bundle in apart))
