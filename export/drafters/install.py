"""Converts drafters of others, and installs one for its model once it agrees with what the model writes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from edgedec.bundle.drafter_manifest import DrafterManifest, Target
from edgedec.bundle.manifest import Manifest
from edgedec.core.progress import Progress, silent
from edgedec.disk.home import ARTIFACTS
from edgedec.disk.listed_files import Scalar
from edgedec.export.drafters.agreement import LEAST
from edgedec.export.drafters.bundle import export_drafter
from edgedec.export.drafters.kinds import KINDS, ForeignKind, drafter_in
from edgedec.export.own_texts import manifest_of_target

QUANT = "q8_0"


def install_drafter(
    path: Path,
    bundle: Path,
    home: Path,
    *,
    facts: Mapping[str, Scalar] | None = None,
    least: float = LEAST,
    progress: Progress = silent,
) -> DrafterManifest:
    """Read the drafter at ``path``, and install it for the model in ``bundle`` once it agrees with it.

    ``facts`` go into the manifest. A drafter that was there before stays until then. Raises NotFoundError,
    BadFileError for damaged files and a drafter that predicts fewer than ``least`` of the tokens that the
    model writes, UnsupportedError as ``DrafterFiles`` does and for a model that hands out no hidden states,
    StorageError.
    """
    kind = _kind_of(path)
    files, manifest = kind.files(), manifest_of_target(bundle, kind.one)
    place = home / ARTIFACTS / Target.of(manifest).short_hash / kind.name
    with files.opened(path, bundle, manifest, QUANT) as new:

        def judged(folder: Path) -> Mapping[str, Scalar]:
            found = files.agreement(folder, new.stated, bundle, progress)
            found.check(f"the {kind.title}", manifest.name, least)
            return {**new.made, **(facts or {}), **found.facts()}

        return export_drafter(new, manifest, place, judged, progress)


def convert_drafter(path: Path, bundle: Path, out: Path, *, quant: str = QUANT) -> DrafterManifest:
    """Write the drafter at ``path`` for the model in ``bundle`` to the folder ``out``, unmeasured.

    Raises as ``install_drafter`` does.
    """
    manifest = Manifest.load(bundle)
    with _kind_of(path).files().opened(path, bundle, manifest, quant) as new:
        return export_drafter(new, manifest, out)


def _kind_of(path: Path) -> ForeignKind:
    """Return the kind of a drafter; for what is none, the first one, which says so."""
    return KINDS[drafter_in(path) or next(iter(KINDS))]
