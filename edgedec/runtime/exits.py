"""The trained exits of a model, in a drafter's folder of the kind "exit"."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from edgedec.core.drafter_manifest import EXIT, DrafterManifest
from edgedec.core.errors import BadFileError, EdgeDecError
from edgedec.core.listed_files import Scalar
from edgedec.core.manifest import Manifest
from edgedec.core.progress import Notice
from edgedec.draft.exit_adapter import ExitAdapter
from edgedec.runtime.companions import companion, new_companion

if TYPE_CHECKING:
    from edgedec.runtime.loaded_model import LoadedModel

MOST_SHARE = 0.03
"""Largest part of the model's bytes that trained exits have."""
_AGAIN = "train it again, or remove it"


def save_exits(
    manifest: Manifest, home: Path, adapters: Sequence[ExitAdapter], facts: Mapping[str, Scalar]
) -> None:
    """Write the trained exits of a model, in the place of older ones. Raises StorageError."""
    with new_companion(manifest, EXIT, home, facts) as folder:
        for one in adapters:
            buffer = io.BytesIO()
            np.savez(buffer, down=one.down.astype(np.float16), up=one.up.astype(np.float16))
            (folder / _file(one.exit)).write_bytes(buffer.getvalue())


def trained_exits(model: LoadedModel, home: Path | None, notice: Notice) -> dict[int, ExitAdapter]:
    """Return the trained exits of a model by their numbers of layers; none where it has none.

    Damaged ones, and those of another model, are left out, and ``notice`` says why.
    """
    try:
        folder = companion(model.manifest, EXIT, home)
        if folder is None:
            return {}
        paths = {exit: folder / _file(exit) for exit in model.backend.caps.exits[:-1]}
        found = [_read(path, exit, model) for exit, path in paths.items() if path.exists()]
        if not found:
            raise BadFileError(f"{folder} has no exit that {model.name} has", hint=_AGAIN)
    except EdgeDecError as error:
        notice(f"{model.name} runs without its trained exits: {error.message}")
        return {}
    return {one.exit: one for one in found}


def stated_agreement(model: LoadedModel, home: Path | None, exit: int) -> float | None:
    """Return how often a trained exit agreed with the model on replies that it was not trained on."""
    folder = companion(model.manifest, EXIT, home)
    stated = DrafterManifest.load(folder, verify=False).facts.get(agreement_of(exit)) if folder else None
    return stated if isinstance(stated, float) and 0.0 <= stated <= 1.0 else None


def agreement_of(exit: int) -> str:
    """Return the name of the fact that states the agreement of a trained exit."""
    return f"agreement after {exit} layers"


def _file(exit: int) -> str:
    return f"exit-{exit}.npz"


def _read(path: Path, exit: int, model: LoadedModel) -> ExitAdapter:
    try:
        with np.load(path, allow_pickle=False) as arrays:
            down, up = _floats(arrays["down"]), _floats(arrays["up"])
    except (OSError, ValueError, KeyError, TypeError, EOFError) as error:
        raise BadFileError(f"{path} cannot be read: {error}", hint=_AGAIN) from error
    width = model.spec.hidden_size
    rank = down.shape[0]
    if down.shape != (rank, width) or up.shape != (width, rank) or not 1 <= rank <= width:
        raise BadFileError(f"{path} has the wrong shape for a model of width {width}", hint=_AGAIN)
    if not (np.isfinite(down).all() and np.isfinite(up).all()):
        raise BadFileError(f"{path} holds values that are not numbers", hint=_AGAIN)
    return ExitAdapter(exit, down, up)


def _floats(stored: NDArray[np.generic]) -> NDArray[np.float32]:
    if stored.dtype != np.float16 or stored.ndim != 2:
        raise ValueError("no matrix of half precision")
    return np.ascontiguousarray(stored, dtype=np.float32)
