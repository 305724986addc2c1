"""The tensors of an MTP layer, as those of a model of one layer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from gguf.constants import GGMLQuantizationType
from numpy.typing import NDArray

from edgedec.core.errors import UnsupportedError
from edgedec.export.gguf_header import TensorInfo
from edgedec.export.hyperparameters import Hyperparameters
from edgedec.export.source import WeightSource

_OWN_TABLES = ("nextn.embed_tokens.weight", "nextn.shared_head_head.weight")
_LAST_NORM = "output_norm.weight"
NEEDED = "nextn.eh_proj.weight"


class MtpSource:
    """Implements ``WeightSource`` over the tensors of ``source`` in the block behind the model's last one.

    They have the block 0 here. The target's last norm is there too: ``last_norm``, else that of ``source``.
    Raises UnsupportedError for a layer with an embedding or a head of its own.
    """

    def __init__(
        self, source: WeightSource, hyper: Hyperparameters, last_norm: NDArray[np.float32] | None = None
    ) -> None:
        self.hyper, self._source, self._last_norm = hyper, source, last_norm
        block = f"blk.{hyper.layers}."
        theirs = {
            name: "blk.0." + name.removeprefix(block) for name in source.tensors if name.startswith(block)
        }
        theirs |= {_LAST_NORM: _LAST_NORM}
        for name in _OWN_TABLES:
            if "blk.0." + name in theirs.values():
                raise UnsupportedError(f"its MTP layer has a table of its own, {name}")
        self._theirs = {ours: name for name, ours in theirs.items() if name in source.tensors}
        tensors = {ours: replace(source.tensors[name], name=ours) for ours, name in self._theirs.items()}
        if last_norm is not None:
            f32 = GGMLQuantizationType.F32
            tensors[_LAST_NORM] = TensorInfo(_LAST_NORM, f32, last_norm.shape, 0, last_norm.nbytes)
        self.tensors: Mapping[str, TensorInfo] = tensors

    @property
    def title(self) -> str:
        """See ``WeightSource``."""
        return self._source.title

    def spelling(self, name: str) -> str:
        """See ``WeightSource``."""
        return self._source.spelling(self._theirs.get(name, name))

    def rows(self, tensor: TensorInfo, start: int, stop: int) -> NDArray[np.uint8]:
        """See ``WeightSource``."""
        return self._source.rows(self._of(tensor), start, stop)

    def vector(self, tensor: TensorInfo) -> NDArray[np.float32]:
        """See ``WeightSource``."""
        if tensor.name == _LAST_NORM and self._last_norm is not None:
            return self._last_norm
        return self._source.vector(self._of(tensor))

    def _of(self, tensor: TensorInfo) -> TensorInfo:
        return replace(tensor, name=self._theirs[tensor.name])
