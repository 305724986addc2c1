"""The interface between the exporter and a file or directory with weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from edgedec.export.gguf_header import TensorInfo


class WeightSource(Protocol):
    """Tensors with the names they have in a GGUF file and the types they have in the bundle."""

    @property
    def title(self) -> str:
        """Name of the source in messages, such as "the GGUF file"."""

    @property
    def tensors(self) -> Mapping[str, TensorInfo]: ...

    def spelling(self, name: str) -> str:
        """Return the name that a tensor has in the source itself, for messages."""

    def rows(self, tensor: TensorInfo, start: int, stop: int) -> NDArray[np.uint8]:
        """Return rows of a matrix as GGUF blocks: u8[stop - start, bytes of a row].

        Rows of a tensor of experts are counted through all of them. Raises BadFileError.
        """

    def vector(self, tensor: TensorInfo) -> NDArray[np.float32]:
        """Return a small float tensor as exact f32. Raises BadFileError or UnsupportedError."""
