"""Compares drafters that lie in a model's own file with the model: one stays that predicts its text."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

from edgedec.bundle.drafter_manifest import DRAFTER, DrafterManifest
from edgedec.bundle.manifest import Manifest
from edgedec.core.errors import BadFileError, EdgeDecError
from edgedec.core.progress import Progress, silent
from edgedec.disk.files import storage_errors
from edgedec.disk.home import ARTIFACTS
from edgedec.export.drafters.agreement import LEAST
from edgedec.export.drafters.kinds import KINDS, ForeignKind

_MEASURED = "agreement"


def checked_drafters(bundle: Path, progress: Progress = silent) -> list[str]:
    """Measure how often the model's own drafters in ``bundle`` agree with it, and write that beside them.

    A damaged one and one that agrees too seldom are removed. Returns the lines that say so, or why nothing
    could be measured; none where they agree or did before. Raises StorageError.
    """
    return [line for kind in KINDS.values() if kind.own and (line := _checked(kind, bundle, progress))]


def _checked(kind: ForeignKind, bundle: Path, progress: Progress) -> str:
    folder = bundle / ARTIFACTS / kind.name
    if not (folder / DRAFTER).exists():
        return ""
    name = Manifest.load(bundle).name
    try:
        made = DrafterManifest.load(folder)
        if _MEASURED in made.facts:
            return ""
        found = kind.files().agreement(folder, made.facts, bundle, progress)
        if found.rate < LEAST:
            raise BadFileError(found.found("it", name))
    except BadFileError as error:
        with storage_errors(str(folder)):
            shutil.rmtree(folder)
        return f"{name} goes without its {kind.title}: {error.message}"
    except EdgeDecError as error:
        return f"the {kind.title} of {name} was not compared with it: {error.message}"
    replace(made, facts={**made.facts, **found.facts()}).save(folder)
    return ""
