"""The tensors of an MTP layer, as those of a model of one layer."""

from __future__ import annotations

import numpy as np
from gguf.constants import GGMLQuantizationType
from numpy.typing import NDArray

from edgedec.core.errors import UnsupportedError
from edgedec.export.drafters.sources import RenamedSource
from edgedec.export.gguf_header import TensorInfo
from edgedec.export.hyperparameters import Hyperparameters
from edgedec.export.source import WeightSource

_OWN_TABLES = ("nextn.embed_tokens.weight", "nextn.shared_head_head.weight")
_LAST_NORM = "output_norm.weight"


class MtpSource(RenamedSource):
    """Tensors of ``source`` in the block behind the model's last one, which have the block 0 here.

    The target's last norm is there too: ``last_norm``, else that of ``source``. Raises UnsupportedError for a
    layer with an embedding or a head of its own.
    """

    def __init__(
        self, source: WeightSource, hyper: Hyperparameters, last_norm: NDArray[np.float32] | None = None
    ) -> None:
        self.hyper, self._last_norm = hyper, last_norm
        block = f"blk.{hyper.layers}."
        names = {
            "blk.0." + name.removeprefix(block): name for name in source.tensors if name.startswith(block)
        }
        for name in _OWN_TABLES:
            if "blk.0." + name in names:
                raise UnsupportedError(f"its MTP layer has a table of its own, {name}")
        if _LAST_NORM in source.tensors:
            names[_LAST_NORM] = _LAST_NORM
        super().__init__(source, names)
        if last_norm is not None:
            norm = TensorInfo(_LAST_NORM, GGMLQuantizationType.F32, last_norm.shape, 0, last_norm.nbytes)
            self.tensors = {**self.tensors, _LAST_NORM: norm}

    def vector(self, tensor: TensorInfo) -> NDArray[np.float32]:
        """See ``WeightSource``."""
        if tensor.name == _LAST_NORM and self._last_norm is not None:
            return self._last_norm
        return super().vector(tensor)
