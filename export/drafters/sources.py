"""Sources of weights that drafters are made of: floats by name, tensors under other names, rows of a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from edgedec.core.errors import UnsupportedError
from edgedec.core.quick_dataclass import dataclass
from edgedec.export.calibration.search import quantise
from edgedec.export.draft_head.weights import Floats, RowReader
from edgedec.export.gguf_header import TensorInfo
from edgedec.export.gguf_source import GgufSource
from edgedec.export.source import WeightSource


class FloatSource:
    """Implements ``WeightSource`` over floats by name, quantised as they are read.

    ``formats`` has the format of every matrix. ``streamed`` are tensors that are read when they are needed,
    matrices by rows. ``title`` names the source in messages.
    """

    def __init__(
        self,
        arrays: Mapping[str, Floats],
        formats: Mapping[str, str],
        streamed: Mapping[str, RowReader] = MappingProxyType({}),
        title: str = "the drafting head",
    ) -> None:
        self.title = title
        self._arrays, self._streamed = dict(arrays), dict(streamed)
        shapes = {name: array.shape for name, array in arrays.items()}
        shapes |= {name: rows.shape for name, rows in streamed.items()}
        self.tensors = {
            name: TensorInfo.unwritten(name, shape, formats.get(name, "f32"))
            for name, shape in shapes.items()
        }

    def spelling(self, name: str) -> str:
        """See ``WeightSource``."""
        return name

    def rows(self, tensor: TensorInfo, start: int, stop: int) -> NDArray[np.uint8]:
        """See ``WeightSource``."""
        return quantise(self._floats(tensor.name, start, stop), tensor.format)

    def vector(self, tensor: TensorInfo) -> NDArray[np.float32]:
        """See ``WeightSource``."""
        return self._floats(tensor.name, 0, tensor.shape[0])

    def _floats(self, name: str, start: int, stop: int) -> Floats:
        if name in self._streamed:
            return self._streamed[name].read(start, stop)
        return self._arrays[name][start:stop]


class RenamedSource:
    """Implements ``WeightSource`` over tensors of ``source``; ``names``: their names there by those here."""

    def __init__(self, source: WeightSource, names: Mapping[str, str]) -> None:
        self._source, self._names = source, dict(names)
        self.tensors: Mapping[str, TensorInfo] = {
            ours: replace(source.tensors[theirs], name=ours) for ours, theirs in names.items()
        }

    @property
    def title(self) -> str:
        """See ``WeightSource``."""
        return self._source.title

    def spelling(self, name: str) -> str:
        """See ``WeightSource``."""
        return self._source.spelling(self._names.get(name, name))

    def rows(self, tensor: TensorInfo, start: int, stop: int) -> NDArray[np.uint8]:
        """See ``WeightSource``."""
        return self._source.rows(self._theirs(tensor), start, stop)

    def vector(self, tensor: TensorInfo) -> NDArray[np.float32]:
        """See ``WeightSource``."""
        return self._source.vector(self._theirs(tensor))

    def _theirs(self, tensor: TensorInfo) -> TensorInfo:
        return replace(tensor, name=self._names[tensor.name])


@dataclass(frozen=True, slots=True)
class GgufRows:
    """A matrix of an open GGUF file as a ``RowReader``."""

    gguf: GgufSource
    tensor: TensorInfo

    @property
    def shape(self) -> tuple[int, ...]:
        return self.tensor.shape

    def read(self, start: int, stop: int) -> Floats:
        """See ``weights.RowReader``."""
        return float_rows(self.gguf, self.tensor, start, stop)


def float_rows(gguf: GgufSource, tensor: TensorInfo, start: int, stop: int) -> Floats:
    """Return rows of a matrix as floats. Raises BadFileError, and UnsupportedError for an unknown format."""
    try:
        with np.errstate(all="ignore"):  # the weights of a head are checked to be finite
            values = tensor.values(gguf.rows(tensor, start, stop), start)
    except NotImplementedError as error:
        raise UnsupportedError(f"tensor {tensor.name} is {tensor.type.name}, which cannot be read") from error
    return values.reshape(stop - start, *tensor.shape[1:])
