"""A Hugging Face model directory as a source of weights: floats in, GGUF blocks out, a few rows at a time."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from gguf import quants
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType
from numpy.typing import NDArray

from edgedec.core.errors import UnsupportedError
from edgedec.export.gguf_header import TensorInfo
from edgedec.export.huggingface.config import Config
from edgedec.export.huggingface.names import gguf_name, huggingface_name
from edgedec.export.huggingface.shards import Stored

_TABLES = ("token_embd.weight", "output.weight")
_TABLE_QUANT = "q8_0"
"""Embedding and head keep eight bits: rounding shows there first, and they are read once a token."""


class HuggingFaceSource:
    """Implements ``WeightSource``; ``stored`` are the tensors of the files, by their own names."""

    title = "the model"

    def __init__(self, directory: Path, config: Config, stored: Mapping[str, Stored], quant: str) -> None:
        self.path, self._config = directory, config
        self._stored: dict[str, Stored] = {}
        self.tensors: dict[str, TensorInfo] = {}
        for name, tensor in stored.items():
            ours = gguf_name(config.architecture, name)
            if (config.tied and ours == "output.weight") or name.endswith(".rotary_emb.inv_freq"):
                continue  # transformers ignores them too
            if ours in self._stored:
                raise UnsupportedError(f"tensor {name[:80]} stands beside another one with its meaning")
            self._stored[ours] = tensor
            kind = _TABLE_QUANT if ours in _TABLES else quant
            self.tensors[ours] = _info(ours, tensor, kind if len(tensor.shape) == 2 else "f32")
        for name, values in config.computed.items():
            kind_f32 = GGMLQuantizationType.F32
            self.tensors[name] = TensorInfo(name, kind_f32, values.shape, 0, int(values.nbytes))

    def spelling(self, name: str) -> str:
        return huggingface_name(self._config.architecture, name)

    def rows(self, tensor: TensorInfo, start: int, stop: int) -> NDArray[np.uint8]:
        """See ``WeightSource``. What the format can represent with a scale in fp16 is kept exactly."""
        values = self._stored[tensor.name].read(start, stop)
        blocks: NDArray[np.uint8] = quants.quantize(values, tensor.type)
        return blocks

    def vector(self, tensor: TensorInfo) -> NDArray[np.float32]:
        """See ``WeightSource``. Gemma's norm weights get their 1 here, as in a GGUF file."""
        if tensor.name in self._config.computed:
            return self._config.computed[tensor.name]
        values = self._stored[tensor.name].read(0, tensor.shape[0])
        norm = tensor.name.endswith("norm.weight")
        return values + np.float32(self._config.norm_offset) if norm else values


def _info(name: str, stored: Stored, kind: str) -> TensorInfo:
    type = GGMLQuantizationType[kind.upper()]
    block, block_bytes = GGML_QUANT_SIZES[type]
    if stored.shape and stored.shape[-1] % block:
        raise UnsupportedError(
            f"tensor {stored.name[:80]} has rows of {stored.shape[-1]}, which is not a multiple of {block}"
        )
    return TensorInfo(name, type, stored.shape, 0, math.prod(stored.shape) // block * block_bytes)
