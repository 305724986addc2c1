"""Drafters that belong to one target: found by the hash of its weights, checked, and written in one step.

Each is a folder with a ``drafter.json``. One that was made here, in the home, comes before one that lies in
the target's own bundle, and that before one that is shipped with the package.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from edgedec.bundle.drafter_manifest import DRAFTER, KINDS, DrafterManifest, Target
from edgedec.bundle.manifest import Manifest
from edgedec.core.errors import BadFileError
from edgedec.core.quick_dataclass import dataclass
from edgedec.disk.files import atomic_path, storage_errors
from edgedec.disk.home import ARTIFACTS
from edgedec.disk.listed_files import FileEntry, Scalar

_SHIPPED = "edgedec.models"
"""The package whose folder ``drafters`` holds those that are shipped."""


@dataclass(frozen=True, slots=True)
class DrafterArtifact:
    """A drafter's folder as it was found, unchecked. ``shipped``: it came with the package or the bundle."""

    kind: str
    path: Path
    shipped: bool

    def checked(self, target: Target) -> DrafterManifest:
        """Read its manifest, and compare every file with it.

        Raises BadFileError for another target, another kind, a damaged or missing file; UnsupportedError for
        another version.
        """
        manifest = DrafterManifest.load(self.path)
        if manifest.kind != self.kind:
            raise BadFileError(
                f"{self.path} holds a drafter of the kind {manifest.kind}, not {self.kind}",
                hint="make it again, or remove it",
            )
        manifest.check_target(target)
        return manifest


def artifact(manifest: Manifest, kind: str, home: Path | None, bundle: Path | None = None) -> Path | None:
    """Return the folder of the drafter of this kind that belongs to a model; None without one.

    ``bundle``: the model's, which may carry some. The drafter's files have been compared with their hashes.
    Raises the errors of ``DrafterArtifact.checked``.
    """
    target = Target.of(manifest)
    for found in artifacts(target, home, bundle):
        if found.kind == kind:
            found.checked(target)
            return found.path
    return None


def artifacts(target: Target, home: Path | None, bundle: Path | None = None) -> Iterator[DrafterArtifact]:
    """Yield the drafters that belong to a target, at most one of each kind; nothing is read yet.

    ``bundle``: the target's, which may carry some.
    """
    packaged = _shipped()
    places = (
        (home and home / ARTIFACTS / target.short_hash, False),
        (bundle and bundle / ARTIFACTS, True),
        (packaged and packaged / target.short_hash, True),
    )
    for kind in KINDS:
        for folder, shipped in places:
            path = folder and folder / kind
            if path and (path / DRAFTER).exists():
                yield DrafterArtifact(kind, path, shipped)
                break


def kinds_here(home: Path) -> set[str]:
    """Return the kinds of drafters that any target has, here or shipped; those in bundles do not count."""
    places = [place for place in (home / ARTIFACTS, _shipped()) if place]
    return {kind for kind in KINDS for place in places if any(place.glob(f"*/{kind}/{DRAFTER}"))}


@contextmanager
def new_artifact(manifest: Manifest, kind: str, home: Path, facts: Mapping[str, Scalar]) -> Iterator[Path]:
    """Yield an empty folder for the files of a drafter; it takes its place when the block ends.

    ``facts`` are read then; the block may add to them. On an exception the drafter that was there stays.
    Raises StorageError.
    """
    target = Target.of(manifest)
    place = home / ARTIFACTS / target.short_hash / kind
    with atomic_path(place, directory=True) as folder:
        yield folder
        files = {path.name: FileEntry.of(path) for path in sorted(folder.iterdir())}
        DrafterManifest(kind, target, files, facts).save(folder)


def remove_artifact(manifest: Manifest, kind: str, home: Path) -> None:
    """Remove the drafter of this kind that was made here for a model, if any. Raises StorageError."""
    for found in artifacts(Target.of(manifest), home):
        if found.kind == kind and not found.shipped:
            with storage_errors(str(found.path)):
                import shutil  # imports all formats of archives

                shutil.rmtree(found.path)


def _shipped() -> Path | None:
    # Not by __file__: an editable install has this package in another folder.
    spec = find_spec(_SHIPPED)
    return Path(spec.origin).parent / ARTIFACTS if spec and spec.origin else None
