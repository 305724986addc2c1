"""The matrices of a drafting head as a source of weights: quantised when they are read."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType
from numpy.typing import NDArray

from edgedec.export.calibration.search import quantise
from edgedec.export.draft_head.weights import Floats
from edgedec.export.gguf_header import TensorInfo


class HeadSource:
    """Implements ``WeightSource`` over float arrays by name. ``formats`` has the format of every matrix."""

    title = "the drafting head"

    def __init__(self, arrays: Mapping[str, Floats], formats: Mapping[str, str]) -> None:
        self._arrays = dict(arrays)
        self.tensors = {name: _info(name, array, formats.get(name)) for name, array in arrays.items()}

    def spelling(self, name: str) -> str:
        """See ``WeightSource``."""
        return name

    def rows(self, tensor: TensorInfo, start: int, stop: int) -> NDArray[np.uint8]:
        """See ``WeightSource``."""
        return quantise(self._arrays[tensor.name][start:stop], tensor.format)

    def vector(self, tensor: TensorInfo) -> NDArray[np.float32]:
        """See ``WeightSource``."""
        return self._arrays[tensor.name]


def _info(name: str, array: Floats, format: str | None) -> TensorInfo:
    type = GGMLQuantizationType[(format or "f32").upper()]
    block, block_bytes = GGML_QUANT_SIZES[type]
    return TensorInfo(name, type, array.shape, 0, math.prod(array.shape) // block * block_bytes)
