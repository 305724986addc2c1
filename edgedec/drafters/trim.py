"""The trimmed head of a model: the ids that it keeps, in a drafter's folder of the kind "trim"."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from edgedec.bundle.drafter_manifest import TRIM, DrafterManifest, Target
from edgedec.bundle.manifest import Manifest
from edgedec.core.errors import BadFileError, EdgeDecError
from edgedec.core.progress import Notice
from edgedec.core.rows import Keep
from edgedec.core_lib.promises import break_even, first_ids
from edgedec.disk.listed_files import Scalar
from edgedec.draft.trimmed import TrimmedHead
from edgedec.drafters.artifacts import artifact, artifacts, new_artifact, remove_artifact

if TYPE_CHECKING:
    from edgedec.loaded_model import LoadedModel

IDS = "keep.i32"
"""The kept ids, ascending, as little-endian int32."""
SAVED = "saved_share"
"""The fact that says which part of a pass's bytes a trimmed head leaves unread, 0 to 1."""
_AGAIN = "make it again, or remove it"


def ends_of(manifest: Manifest) -> list[int]:
    """Return the tokens that begin and end texts of a model; every trimmed head keeps them."""
    info = manifest.tokenizer
    return sorted({*info.eos_ids, *([] if info.bos_id is None else [info.bos_id])})


def save_trim(manifest: Manifest, home: Path, ids: Keep, facts: Mapping[str, Scalar]) -> None:
    """Write the trimmed head of a model, in the place of an older one.

    Raises ValueError for ids that no head can be trimmed to, StorageError.
    """
    if fault := _fault_of(ids, manifest):
        raise ValueError(f"the head cannot be trimmed like that: {fault}")
    with new_artifact(manifest, TRIM, home, facts) as folder:
        (folder / IDS).write_bytes(ids.astype("<i4").tobytes())


def remove_trim(manifest: Manifest, home: Path) -> None:
    """Remove the trimmed head that was made for a model, if there is one. Raises StorageError."""
    remove_artifact(manifest, TRIM, home)


def is_trimmed(manifest: Manifest, home: Path | None, bundle: Path | None = None) -> bool:
    """Whether there is a trimmed head for a model; whether it is a good one is seen when it is read."""
    return any(found.kind == TRIM for found in artifacts(Target.of(manifest), home, bundle))


def saved_share(folder: Path) -> float:
    """Return the share of a pass that a trimmed head saves; 0 for a broken one, of which its use tells."""
    try:
        saved = DrafterManifest.load(folder, verify=False).facts.get(SAVED)
    except EdgeDecError:
        return 0.0
    return saved if isinstance(saved, float) else 0.0


def kept_ids(manifest: Manifest, home: Path | None) -> Keep | None:
    """Return the ids that the model's head is trimmed to when it drafts; None where it is not.

    Raises BadFileError for damaged files and for ids of another vocabulary, UnsupportedError for another
    version.
    """
    found = _found(manifest, home)
    return found[0] if found else None


def trimmed_head(
    draft: LoadedModel, target: LoadedModel, home: Path | None, notice: Notice
) -> TrimmedHead | None:
    """Return the trimmed head of a draft model; None where it has none.

    A damaged one is left out, with a notice.
    """
    if not draft.backend.caps.exits:
        return None
    try:
        found = _found(draft.manifest, home, draft.bundle)
    except EdgeDecError as error:
        notice(f"{draft.name} drafts with its full head: {error}")
        return None
    if found is None:
        return None
    ids, saved = found
    step, whole = (one.spec.read_bytes(one.backend.weight_bytes) for one in (draft, target))
    step /= max(whole, 1)
    return TrimmedHead(ids, break_even(step, step * (1.0 - saved)), saved)


def trimmed_layer(model: LoadedModel, own: float, head: int, home: Path | None) -> TrimmedHead | None:
    """Return the trimmed head of a model for a drafter that reads ``own`` bytes and the model's ``head``.

    Where none was made, the first ids of a large vocabulary, as many as suit what a step costs beside a pass.
    None for a smaller one. Raises BadFileError and UnsupportedError for a damaged one.
    """
    whole, vocab = max(model.spec.read_bytes(model.backend.weight_bytes), 1), model.spec.vocab_size

    def step(ids: int) -> float:
        return (own + head * ids / vocab) / whole

    found = _found(model.manifest, home, model.bundle)
    if found is None and (first := first_ids(own / whole, head / whole, vocab)):
        ids = np.union1d(np.arange(first, dtype=np.int64), np.array(ends_of(model.manifest), np.int64))
        found = ids, 1.0 - step(ids.size) / step(vocab)
    if found is None:
        return None
    ids, saved = found
    return TrimmedHead(ids, break_even(step(vocab), step(ids.size)), saved)


def _found(manifest: Manifest, home: Path | None, bundle: Path | None = None) -> tuple[Keep, float] | None:
    folder = artifact(manifest, TRIM, home, bundle)
    if folder is None:
        return None
    try:
        data = (folder / IDS).read_bytes()
    except OSError as error:
        raise BadFileError(f"{folder} has no {IDS}: {error.strerror}", hint=_AGAIN) from error
    ids = np.frombuffer(data[: len(data) // 4 * 4], dtype="<i4").astype(np.int64)
    if fault := _fault_of(ids, manifest):
        raise BadFileError(f"{folder / IDS} is no trimmed head of {manifest.name}: {fault}", hint=_AGAIN)
    saved = DrafterManifest.load(folder, verify=False).facts.get(SAVED)
    if not isinstance(saved, float) or not 0.0 <= saved <= 1.0:
        raise BadFileError(f"{folder} does not say how much its trimmed head saves", hint=_AGAIN)
    return ids, saved


def _fault_of(ids: Keep, manifest: Manifest) -> str | None:
    from edgedec.draft.subset import fault_of

    return fault_of(ids, manifest.spec.vocab_size, ends_of(manifest))
