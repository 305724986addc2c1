"""Matrices of a model directory with an adapter: ``W + up down`` in float32, before they are quantised."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edgedec.core.errors import UnsupportedError
from edgedec.core.low_rank import LowRank
from edgedec.core.quick_dataclass import dataclass
from edgedec.export.huggingface.shards import StoredTensor


@dataclass(frozen=True, slots=True)
class WithAdapters:
    """A model directory, and directories of adapters that PEFT saved, each with ":" and a scale behind it."""

    directory: Path
    lora: Sequence[str]


@dataclass(frozen=True, slots=True)
class MergedTensor(StoredTensor):
    """A tensor of a file, and its change."""

    change: LowRank

    def read(self, start: int, stop: int) -> NDArray[np.float32]:
        """As of ``StoredTensor``, with the change added."""
        return StoredTensor.read(self, start, stop) + self.change.up[start:stop] @ self.change.down


def merged(stored: Mapping[str, StoredTensor], changes: Mapping[str, LowRank]) -> dict[str, StoredTensor]:
    """Return the tensors of a model directory with the changes of an adapter, by the name of a module.

    Raises UnsupportedError for a module that the model lacks, or that has another shape there.
    """
    found = dict(stored)
    for module, change in changes.items():
        tensor = found.get(f"{module}.weight")
        if tensor is None or tensor.shape != change.shape:
            raise UnsupportedError(
                f"an adapter changes {module[:80]}, which the model lacks or has in another size",
                hint="use an adapter of this model",
            )
        if isinstance(tensor, MergedTensor):
            change = tensor.change.beside(change)
        found[tensor.name] = MergedTensor(
            tensor.name, tensor.file, tensor.dtype, tensor.shape, tensor.offset, change
        )
    return found
