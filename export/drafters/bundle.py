"""Writes the folder of a drafter: its graph, ``weights.bin`` and ``drafter.json``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from edgedec.bundle.drafter_manifest import DrafterManifest, Target
from edgedec.bundle.manifest import WEIGHTS, Manifest
from edgedec.core.progress import Progress, silent
from edgedec.disk.files import atomic_path
from edgedec.disk.listed_files import Scalar
from edgedec.export.drafters.interface import NewDrafter
from edgedec.export.writer import BundleWriter, check_space, weights_bytes

Judge = Callable[[Path], Mapping[str, Scalar]]
"""Returns facts about the drafter whose files are in a folder, or raises if it is not to stay."""


def export_drafter(
    new: NewDrafter, target: Manifest, out: Path, judge: Judge | None = None, progress: Progress = silent
) -> DrafterManifest:
    """Write the drafter to the folder ``out``, which is replaced in one step, and return its manifest.

    Raises BadFileError, StorageError and the errors of ``judge``.
    """
    check_space(out, weights_bytes(new.model))
    with atomic_path(out, directory=True) as folder:
        return write_drafter(new, target, folder, judge, progress)


def write_drafter(
    new: NewDrafter, target: Manifest, folder: Path, judge: Judge | None = None, progress: Progress = silent
) -> DrafterManifest:
    """Write the drafter to the empty ``folder``, as ``export_drafter`` does."""
    writer = BundleWriter(folder, {})
    writer.weights(new.model, new.source, progress)  # before the graph, which states checks of experts
    writer.model(new.model, new.kind, {"format": "edgedec-drafter"}, new.graph)
    names = (WEIGHTS, new.graph) if new.weights_first else (new.graph, WEIGHTS)
    files = {name: writer.files[name] for name in names}
    facts = {**(judge(folder) if judge else {}), **new.stated}
    made = DrafterManifest(new.kind, Target.of(target), files, facts)
    DrafterManifest.from_json(made.to_json())  # a manifest that cannot be loaded must not be written
    made.save(folder)
    return made
