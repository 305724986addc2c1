"""Compares the MTP layer in a bundle with its target: it stays where it predicts what the target writes."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

from edgedec.bundle.drafter_manifest import DRAFTER, MTP, DrafterManifest
from edgedec.bundle.manifest import Manifest
from edgedec.bundle.mtp_facts import MtpFacts
from edgedec.core.errors import BadFileError, EdgeDecError
from edgedec.core.progress import Progress, silent
from edgedec.disk.files import storage_errors
from edgedec.disk.home import ARTIFACTS
from edgedec.export.drafters.agreement import LEAST
from edgedec.export.mtp.files import MtpFiles

_MEASURED = "agreement"


def checked_mtp(bundle: Path, progress: Progress = silent) -> str:
    """Measure how often the MTP layer in ``bundle`` agrees with the model, and write that beside it.

    A damaged layer and one that agrees too seldom are removed. Returns the line that says so, or why nothing
    could be measured; "" where it agrees or did before, and for a bundle without one. Raises StorageError.
    """
    folder = bundle / ARTIFACTS / MTP
    if not (folder / DRAFTER).exists():
        return ""
    name = Manifest.load(bundle).name
    try:
        made = DrafterManifest.load(folder)
        if _MEASURED in made.facts:
            return ""
        found = MtpFiles().agreement(folder, MtpFacts.of(made.facts), bundle, progress)
        if found.rate < LEAST:
            raise BadFileError(found.found("it", name))
    except BadFileError as error:
        with storage_errors(str(folder)):
            shutil.rmtree(folder)
        return f"{name} goes without its MTP layer: {error.message}"
    except EdgeDecError as error:
        return f"the MTP layer of {name} was not compared with it: {error.message}"
    replace(made, facts={**made.facts, **found.facts()}).save(folder)
    return ""
