"""The matrices of a drafting head as a source of weights: quantised when they are read."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType
from numpy.typing import NDArray

from edgedec.export.calibration.search import quantise
from edgedec.export.draft_head.weights import Floats, RowReader
from edgedec.export.gguf_header import TensorInfo


class HeadSource:
    """Implements ``WeightSource`` over floats by name. ``formats`` has the format of every matrix.

    ``streamed`` are matrices that are read by rows.
    """

    title = "the drafting head"

    def __init__(
        self,
        arrays: Mapping[str, Floats],
        formats: Mapping[str, str],
        streamed: Mapping[str, RowReader] = MappingProxyType({}),
    ) -> None:
        self._arrays, self._streamed = dict(arrays), dict(streamed)
        shapes = {name: array.shape for name, array in arrays.items()}
        shapes |= {name: rows.shape for name, rows in streamed.items()}
        self.tensors = {name: _info(name, shape, formats.get(name)) for name, shape in shapes.items()}

    def spelling(self, name: str) -> str:
        """See ``WeightSource``."""
        return name

    def rows(self, tensor: TensorInfo, start: int, stop: int) -> NDArray[np.uint8]:
        """See ``WeightSource``."""
        if tensor.name in self._streamed:
            return quantise(self._streamed[tensor.name].read(start, stop), tensor.format)
        return quantise(self._arrays[tensor.name][start:stop], tensor.format)

    def vector(self, tensor: TensorInfo) -> NDArray[np.float32]:
        """See ``WeightSource``."""
        return self._arrays[tensor.name]


def _info(name: str, shape: tuple[int, ...], format: str | None) -> TensorInfo:
    type = GGMLQuantizationType[(format or "f32").upper()]
    block, block_bytes = GGML_QUANT_SIZES[type]
    return TensorInfo(name, type, shape, 0, math.prod(shape) // block * block_bytes)
