"""Reads the weights of an assistant from safetensors or a GGUF file, under their names in the latter."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edgedec.core.errors import BadFileError
from edgedec.export.architectures import ARCHITECTURES
from edgedec.export.assistant.sizes import AssistantSizes, from_config, from_metadata
from edgedec.export.drafters.sources import FloatSource, RenamedSource
from edgedec.export.gguf_header import TensorInfo
from edgedec.export.gguf_source import GgufSource, open_gguf
from edgedec.export.huggingface.files import read_object
from edgedec.export.huggingface.names import gguf_name
from edgedec.export.huggingface.shards import StoredTensor, read_shards, weight_files
from edgedec.export.source import WeightSource

TABLE, CENTROIDS, ORDERING = "token_embd.weight", "masked_embd_centroids.weight", "masked_embd_ordering"
ROPE_FACTORS = "rope_freqs.weight"
_OWN = {
    "pre_projection.weight": "nextn.pre_projection.weight",
    "post_projection.weight": "nextn.post_projection.weight",
    "masked_embedding.centroids.weight": CENTROIDS,
    "masked_embedding.token_ordering": ORDERING,
}
"""Names that a model of the family has not, in safetensors and in a GGUF file."""
_ROTATED = 1e20
"""Divisors of frequencies from here on mean that a pair does not turn."""


class AssistantSource:
    """Implements ``WeightSource`` over the tensors of ``source``, which have their names in a GGUF file.

    The table of the head is read once, and lies in the order of ``ordering`` i64[vocabulary], where there is
    one. Raises BadFileError for an ordering that does not list every token.
    """

    title = "the assistant"

    def __init__(
        self, sizes: AssistantSizes, source: WeightSource, ordering: NDArray[np.int64] | None
    ) -> None:
        self.sizes, self.ordering, self._source = sizes, ordering, source
        self.tensors: Mapping[str, TensorInfo] = source.tensors
        self._table: NDArray[np.uint8] | None = None
        if ordering is not None:
            _check_ordering(ordering, self.tensors, sizes)

    def spelling(self, name: str) -> str:
        """See ``WeightSource``."""
        return self._source.spelling(name)

    def rows(self, tensor: TensorInfo, start: int, stop: int) -> NDArray[np.uint8]:
        """See ``WeightSource``."""
        if tensor.name != TABLE or self.ordering is None:
            return self._source.rows(tensor, start, stop)
        if self._table is None:
            step, height = 4096, tensor.shape[0]
            pieces = [self._source.rows(tensor, at, min(at + step, height)) for at in range(0, height, step)]
            self._table = np.concatenate(pieces)
        return self._table[self.ordering[start:stop]]

    def vector(self, tensor: TensorInfo) -> NDArray[np.float32]:
        """See ``WeightSource``."""
        return self._source.vector(tensor)


@contextmanager
def open_assistant(path: Path, quant: str) -> Iterator[AssistantSource]:
    """Open a GGUF file, or a directory whose matrices get the format ``quant``.

    Raises NotFoundError, BadFileError or UnsupportedError.
    """
    if path.is_dir():
        yield _from_directory(path, quant)
    else:
        with open_gguf(path) as gguf:
            yield _from_gguf(gguf)


def _from_directory(path: Path, quant: str) -> AssistantSource:
    sizes = from_config(read_object(path / "config.json", required=True))
    stored: dict[str, StoredTensor] = {}
    for name, tensor in read_shards(weight_files(path)).items():
        if name != "lm_head.weight":  # tied to the embedding
            stored[_OWN.get(name) or gguf_name(ARCHITECTURES["gemma4"], name)] = tensor
    order = stored.pop(ORDERING, None)
    formats = {name: quant for name, one in stored.items() if len(one.shape) == 2}
    source = FloatSource({}, formats, stored, AssistantSource.title)
    return AssistantSource(sizes, source, None if order is None else order.integers())


def _from_gguf(gguf: GgufSource) -> AssistantSource:
    tensors = dict(gguf.tensors)
    order = tensors.pop(ORDERING, None)
    factors = tensors.pop(ROPE_FACTORS, None)
    turned = 0 if factors is None else 2 * int((gguf.vector(factors) < _ROTATED).sum())
    centroids = tensors[CENTROIDS].shape[0] if CENTROIDS in tensors and order is not None else 0
    if not centroids:
        tensors.pop(CENTROIDS, None)
        order = None
    sizes = from_metadata(gguf.metadata, centroids, turned)
    source = RenamedSource(gguf, {name.replace("blk.0.nextn.", "nextn."): name for name in tensors})
    return AssistantSource(sizes, source, None if order is None else gguf.integers(order))


def _check_ordering(
    ordering: NDArray[np.int64], tensors: Mapping[str, TensorInfo], sizes: AssistantSizes
) -> None:
    """Raise BadFileError unless every token is listed once, in clusters of one size."""
    vocab = tensors[TABLE].shape[0] if TABLE in tensors else 0
    listed = ordering.size == vocab and np.array_equal(np.sort(ordering), np.arange(vocab))
    if not listed or not sizes.centroids or vocab % sizes.centroids or sizes.chosen > sizes.centroids:
        raise BadFileError("the assistant does not list every token once, in clusters of one size")
