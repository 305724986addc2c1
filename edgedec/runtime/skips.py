"""Layers that a search chose for a model's drafts to leave out, in a drafter's folder of the kind "skip"."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from edgedec.core.drafter_manifest import SKIP, DrafterManifest
from edgedec.core.errors import BadFileError, EdgeDecError
from edgedec.core.listed_files import Scalar
from edgedec.core.manifest import Manifest
from edgedec.core.progress import Notice
from edgedec.draft.exit import Way, skipping
from edgedec.runtime.companions import companion, new_companion

if TYPE_CHECKING:
    from edgedec.core.forward import Capabilities
    from edgedec.runtime.loaded_model import LoadedModel

_WAY, _SPEED = "way", "predicted speed"


def save_skip(manifest: Manifest, home: Path, way: Way, speed: float, facts: Mapping[str, Scalar]) -> None:
    """Write the best way past some layers that a search found, in the place of an older one.

    ``speed``: predicted, over plain decoding. Raises StorageError.
    """
    with new_companion(manifest, SKIP, home, {_WAY: way.name, _SPEED: round(speed, 3), **facts}):
        pass  # its name is all that it has


def chosen_skip(model: LoadedModel, home: Path | None, notice: Notice) -> list[Way] | None:
    """Return the way that a search chose for a model, if it promises to gain; None where there was no search.

    One that cannot be used is left out, and ``notice`` says why.
    """
    try:
        folder = companion(model.manifest, SKIP, home)
        if folder is None:
            return None
        facts = DrafterManifest.load(folder, verify=False).facts
        name, speed = str(facts.get(_WAY)), facts.get(_SPEED)
        way = skip_named(name, model.backend.caps)
        if way is None or not isinstance(speed, float):
            raise BadFileError(f"{model.name} has no way past its layers named {name[:40]!r}")
    except EdgeDecError as error:
        notice(f"{model.name} drafts without the layers that were chosen to be skipped: {error.message}")
        return None
    return [way] if speed > 1.0 else []


def skip_named(name: str, caps: Capabilities) -> Way | None:
    """Return the way past layers of this name, such as "skip-4-8-12-16"; None for one that does not exist."""
    kind, *bounds = name.split("-")
    if kind != SKIP or not bounds or len(bounds) % 2 or not all(one.isdecimal() for one in bounds):
        return None
    numbers = [int(one) for one in bounds]
    inner = all(number in caps.exits[:-1] for number in numbers)
    ascends = all(before < after for before, after in pairwise(numbers))
    return skipping(*numbers) if inner and ascends else None
