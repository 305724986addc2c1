"""The seam between the exporter and a file or directory with weights, whatever its format."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from edgedec.export.gguf_header import TensorInfo


class WeightSource(Protocol):
    """Tensors under the names of a GGUF file, each in the type that it has in the bundle."""

    @property
    def title(self) -> str:
        """Its name in messages ("the GGUF file")."""

    @property
    def tensors(self) -> Mapping[str, TensorInfo]: ...

    def spelling(self, name: str) -> str:
        """The name that a tensor has in the source itself, for messages."""

    def rows(self, tensor: TensorInfo, start: int, stop: int) -> NDArray[np.uint8]:
        """Rows of a matrix as GGUF blocks: u8[stop - start, bytes of a row]. Raises BadFileError."""

    def vector(self, tensor: TensorInfo) -> NDArray[np.float32]:
        """A small float tensor as f32, exactly. Raises BadFileError or UnsupportedError."""
