"""The matrices of experts as one tensor, however a model directory stores them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from edgedec.core.errors import BadFileError, UnsupportedError
from edgedec.core.quick_dataclass import dataclass
from edgedec.export.huggingface.shards import StoredTensor

EXPERTS = "_exps.weight"
"""Ends of the GGUF names of tensors that hold a matrix of every expert."""


@dataclass(frozen=True, slots=True)
class StackedTensor:
    """A tensor [experts, rows, columns], of one tensor or of one for each expert."""

    name: str
    shape: tuple[int, ...]
    parts: Sequence[StoredTensor]
    """Matrices of equal height, one below the other."""

    def read(self, start: int, stop: int) -> NDArray[np.float32]:
        """Return rows ``start`` to ``stop``, counted through all experts; raises as those of ``parts``."""
        height = self.parts[0].shape[0]
        found = [
            part.read(max(start - first, 0), min(stop - first, height))
            for first, part in enumerate_rows(self.parts, height)
            if first < stop and start < first + height
        ]
        return np.concatenate(found)


def enumerate_rows(parts: Sequence[StoredTensor], height: int) -> list[tuple[int, StoredTensor]]:
    """Return each part with its first row."""
    return [(height * at, part) for at, part in enumerate(parts)]


def of_one(stored: StoredTensor) -> StackedTensor:
    """Return a tensor that holds all experts already."""
    experts, rows, columns = stored.shape
    return StackedTensor(stored.name, stored.shape, [replace(stored, shape=(experts * rows, columns))])


def of_many(spelling: str, found: Mapping[int, StoredTensor]) -> StackedTensor:
    """Return the tensor of one matrix an expert, by its number; ``spelling`` has * for that.

    Raises BadFileError for an expert that lacks, UnsupportedError for matrices of different sizes.
    """
    if lacking := set(range(max(found) + 1)) - found.keys():
        raise BadFileError(f"the model lacks tensor {spelling.replace('*', str(min(lacking)))}")
    parts = [found[expert] for expert in range(len(found))]
    shapes = {part.shape for part in parts}
    if len(shapes) > 1 or len(parts[0].shape) != 2:
        raise UnsupportedError(f"the tensors {spelling[:80]} are not matrices of one size")
    return StackedTensor(spelling, (len(parts), *parts[0].shape), parts)
