"""Reads the weights of an assistant from safetensors or a GGUF file, under their names in the latter."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType
from numpy.typing import NDArray

from edgedec.core.errors import BadFileError, UnsupportedError
from edgedec.export.assistant.sizes import (
    ARCHITECTURE,
    MODEL_TYPE,
    AssistantSizes,
    from_config,
    from_metadata,
)
from edgedec.export.calibration.search import quantise
from edgedec.export.gguf_header import TensorInfo
from edgedec.export.gguf_source import GgufSource, open_gguf
from edgedec.export.huggingface.files import read_object
from edgedec.export.huggingface.shards import StoredTensor, read_shards, weight_files

TABLE, CENTROIDS, ORDERING = "token_embd.weight", "masked_embd_centroids.weight", "masked_embd_ordering"
ROPE_FACTORS = "rope_freqs.weight"
_TOP = {
    "model.embed_tokens.weight": TABLE,
    "model.norm.weight": "output_norm.weight",
    "pre_projection.weight": "nextn.pre_projection.weight",
    "post_projection.weight": "nextn.post_projection.weight",
    "masked_embedding.centroids.weight": CENTROIDS,
    "masked_embedding.token_ordering": ORDERING,
}
_BLOCK = {
    "input_layernorm.weight": "attn_norm.weight",
    "self_attn.q_proj.weight": "attn_q.weight",
    "self_attn.q_norm.weight": "attn_q_norm.weight",
    "self_attn.o_proj.weight": "attn_output.weight",
    "post_attention_layernorm.weight": "post_attention_norm.weight",
    "pre_feedforward_layernorm.weight": "ffn_norm.weight",
    "mlp.gate_proj.weight": "ffn_gate.weight",
    "mlp.up_proj.weight": "ffn_up.weight",
    "mlp.down_proj.weight": "ffn_down.weight",
    "post_feedforward_layernorm.weight": "post_ffw_norm.weight",
    "layer_scalar": "layer_output_scale.weight",
}
_INTEGERS = {"I32": "<i4", "I64": "<i8"}
_ROTATED = 1e20
"""Divisors of frequencies from here on mean that a pair does not turn."""


class AssistantSource:
    """Implements ``WeightSource``.

    ``read(name, start, stop)`` returns rows of a matrix as GGUF blocks, ``floats(name)`` a vector. The table
    of the head is read once, and lies in the order of ``ordering`` i64[vocabulary], where there is one.
    """

    title = "the assistant"

    def __init__(
        self,
        sizes: AssistantSizes,
        tensors: Mapping[str, TensorInfo],
        read: Callable[[str, int, int], NDArray[np.uint8]],
        floats: Callable[[str], NDArray[np.float32]],
        ordering: NDArray[np.int64] | None,
    ) -> None:
        self.sizes, self.tensors, self.ordering = sizes, tensors, ordering
        self._read, self._floats = read, floats
        self._table: NDArray[np.uint8] | None = None
        if ordering is not None:
            _check_ordering(ordering, tensors, sizes)

    def spelling(self, name: str) -> str:
        """See ``WeightSource``."""
        return name

    def rows(self, tensor: TensorInfo, start: int, stop: int) -> NDArray[np.uint8]:
        """See ``WeightSource``."""
        if tensor.name != TABLE or self.ordering is None:
            return self._read(tensor.name, start, stop)
        if self._table is None:
            step, height = 4096, tensor.shape[0]
            pieces = [self._read(TABLE, at, min(at + step, height)) for at in range(0, height, step)]
            self._table = np.concatenate(pieces)
        return self._table[self.ordering[start:stop]]

    def vector(self, tensor: TensorInfo) -> NDArray[np.float32]:
        """See ``WeightSource``."""
        return self._floats(tensor.name)


def is_assistant(path: Path) -> bool:
    """Return whether ``path`` is an assistant of Gemma 4: a directory, or a GGUF file.

    Raises BadFileError and UnsupportedError for a broken config.json or a broken GGUF file.
    """
    if path.is_dir():
        return read_object(path / "config.json").get("model_type") == MODEL_TYPE
    with open_gguf(path) as gguf:
        return gguf.metadata.get("general.architecture") == ARCHITECTURE


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
            stored[_gguf_name(name)] = tensor
    order = stored.pop(ORDERING, None)
    tensors = {name: _info(name, one.shape, quant) for name, one in stored.items()}

    def read(name: str, start: int, stop: int) -> NDArray[np.uint8]:
        return quantise(stored[name].read(start, stop), quant)

    def floats(name: str) -> NDArray[np.float32]:
        return stored[name].read(0, stored[name].shape[0])

    return AssistantSource(sizes, tensors, read, floats, None if order is None else _stored_integers(order))


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
    renamed = {name.replace("blk.0.nextn.", "nextn."): one for name, one in tensors.items()}

    def read(name: str, start: int, stop: int) -> NDArray[np.uint8]:
        return gguf.rows(renamed[name], start, stop)

    def floats(name: str) -> NDArray[np.float32]:
        return gguf.vector(renamed[name])

    ordering = None if order is None else gguf.integers(order)
    infos = {name: replace(one, name=name) for name, one in renamed.items()}
    return AssistantSource(sizes, infos, read, floats, ordering)


def _gguf_name(name: str) -> str:
    if name in _TOP:
        return _TOP[name]
    layer, _, rest = name.removeprefix("model.layers.").partition(".")
    if name.startswith("model.layers.") and layer.isdecimal() and rest in _BLOCK:
        return f"blk.{layer}.{_BLOCK[rest]}"
    return name  # refused later, by the name that it has


def _info(name: str, shape: tuple[int, ...], quant: str) -> TensorInfo:
    type = GGMLQuantizationType[(quant if len(shape) == 2 else "f32").upper()]
    block, block_bytes = GGML_QUANT_SIZES[type]
    return TensorInfo(name, type, shape, 0, math.prod(shape) // block * block_bytes)


def _stored_integers(tensor: StoredTensor) -> NDArray[np.int64]:
    if tensor.dtype not in _INTEGERS or len(tensor.shape) != 1:
        raise UnsupportedError(f"tensor {tensor.name[:80]} is no list of integers")
    with tensor.file.open("rb") as stream:
        stream.seek(tensor.offset)
        found = np.fromfile(stream, dtype=_INTEGERS[tensor.dtype], count=tensor.shape[0])
    if found.size != tensor.shape[0]:
        raise BadFileError(f"{tensor.file.name} ends inside tensor {tensor.name[:80]}")
    return found.astype(np.int64)


def _check_ordering(
    ordering: NDArray[np.int64], tensors: Mapping[str, TensorInfo], sizes: AssistantSizes
) -> None:
    """Raise BadFileError unless every token is listed once, in clusters of one size."""
    vocab = tensors[TABLE].shape[0] if TABLE in tensors else 0
    listed = ordering.size == vocab and np.array_equal(np.sort(ordering), np.arange(vocab))
    if not listed or not sizes.centroids or vocab % sizes.centroids or sizes.chosen > sizes.centroids:
        raise BadFileError("the assistant does not list every token once, in clusters of one size")
