"""The ids that a drafter learns to predict: chosen by its first training, and the same ever after."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edgedec.core.errors import BadFileError
from edgedec.core.model_spec import ModelSpec
from edgedec.disk.files import atomic_path
from edgedec.draft.subset import always_kept, best_ids, counted
from edgedec.text.tokenizer import Tokenizer
from edgedec.training.rollouts import Rollout

KEEP = "keep.npy"


def kept_ids(
    folder: Path, replies: Iterable[Rollout], tokenizer: Tokenizer, spec: ModelSpec, most: int
) -> NDArray[np.int64]:
    """Return the ids in the file in ``folder``, or choose them and write it. Raises BadFileError.

    They are the ``most`` most frequent of ``replies``, with those that must not lack.
    """

    def chosen() -> NDArray[np.int64]:
        counts = counted((one.reply for one in replies), spec.vocab_size)
        return best_ids(counts, always_kept(tokenizer, spec.eos_ids), min(most, spec.vocab_size))

    return first_chosen(folder, chosen)


def first_chosen(folder: Path, choose: Callable[[], NDArray[np.int64]]) -> NDArray[np.int64]:
    """Return the ids in the file in ``folder``, or write those of ``choose``. Raises BadFileError."""
    path = folder / KEEP
    if path.is_file():
        try:
            found: NDArray[np.int64] = np.load(path, allow_pickle=False)
        except (OSError, ValueError) as error:
            raise BadFileError(f"{path} cannot be read", hint="remove it") from error
        return found
    keep = choose()
    with atomic_path(path) as temporary, temporary.open("wb") as stream:
        np.save(stream, keep, allow_pickle=False)
    return keep
