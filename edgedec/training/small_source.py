"""A GGUF file as the source of a smaller model: some of its layers, as floats."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
from gguf import quants
from numpy.typing import NDArray

from edgedec.core.errors import BadFileError, UnsupportedError, UsageError
from edgedec.export.architectures import ARCHITECTURES, Architecture
from edgedec.export.blocks.rotary import ROPE_FACTORS, inverse_frequencies
from edgedec.export.gguf_header import TensorInfo
from edgedec.export.gguf_source import GgufSource, open_gguf
from edgedec.export.hyperparameters import Hyperparameters, read_hyperparameters
from edgedec.training.target_weights import Floats

EMBEDDING, HEAD = "token_embd.weight", "output.weight"
TABLES = (EMBEDDING, HEAD, ROPE_FACTORS)
"""Tensors that a smaller model takes over bit for bit."""
FEWEST_LAYERS = 2


def kept_layers(layers: int, count: int) -> tuple[int, ...]:
    """Return ``count`` of ``layers`` layers, evenly spread, the first and the last among them.

    Raises UsageError for a count below 2 or above ``layers``.
    """
    if not FEWEST_LAYERS <= count <= layers:
        raise UsageError(
            f"a model of {layers} layers cannot keep {count}", hint=f"{FEWEST_LAYERS} to {layers} can be kept"
        )
    return tuple(int(layer) for layer in np.linspace(0, layers - 1, count).round())


class GgufTable:
    """A matrix of a GGUF file whose rows are unpacked when they are used."""

    def __init__(self, source: GgufSource, tensor: TensorInfo) -> None:
        self.rows, self.cols = tensor.shape
        self._type = tensor.type
        self.packed = source.rows(tensor, 0, self.rows)
        self.format = tensor.format

    def gather(self, ids: NDArray[np.int64]) -> Floats:
        """Return the rows ``ids``, f32[n, cols]."""
        return quants.dequantize(self.packed[ids], self._type).astype(np.float32, copy=False)


class SmallSource:
    """The layers ``kept`` of the model in ``path``; tensors of layer kept[i] are named as those of layer i.

    Raises NotFoundError, BadFileError, and UnsupportedError for an architecture that training does not know.
    """

    def __init__(self, path: Path, count: int | None = None) -> None:
        """``count``: layers to keep; None: all."""
        with open_gguf(path) as gguf:
            self.path = gguf.path
            self.metadata: Mapping[str, object] = gguf.metadata
            whole = _hyperparameters(gguf)
            count = whole.layers if count is None else count
            self.kept = kept_layers(whole.layers, count)
            self.hyper = replace(whole, layers=count, windows=whole.windows[:count])
            self.names = {new: old for old in gguf.tensors if (new := self._renamed(old)) is not None}
            if EMBEDDING not in gguf.tensors:
                raise BadFileError(f"{path} lacks tensor {EMBEDDING}")
            self.embedding = GgufTable(gguf, gguf.tensors[EMBEDDING])
            self.head = GgufTable(gguf, gguf.tensors[HEAD]) if HEAD in gguf.tensors else self.embedding
            factors = gguf.vector(gguf.tensors[ROPE_FACTORS]) if ROPE_FACTORS in gguf.tensors else None
            self.arrays = {
                new: _floats(gguf, gguf.tensors[old]) for new, old in self.names.items() if new not in TABLES
            }
        self.frequencies = inverse_frequencies(whole.rope_base, whole.head_dim, whole.rope_divisor, factors)
        self.factors = factors

    @property
    def vocabulary(self) -> int:
        """Number of tokens."""
        return self.embedding.rows

    def _renamed(self, name: str) -> str | None:
        """Return the name of a tensor in the small model; None for one of a layer that is left out."""
        if not name.startswith("blk."):
            return name
        number, _, rest = name.removeprefix("blk.").partition(".")
        layer = int(number) if number.isdigit() else -1
        return f"blk.{self.kept.index(layer)}.{rest}" if layer in self.kept else None


def _hyperparameters(gguf: GgufSource) -> Hyperparameters:
    name = str(gguf.metadata.get("general.architecture"))
    arch = ARCHITECTURES.get(name)
    if arch is None or not _plain(arch):
        known = [one.name for one in ARCHITECTURES.values() if _plain(one)]
        raise UnsupportedError(
            f"a small model cannot be made of architecture {name[:40]!r}", hint=f"use {', '.join(known)}"
        )
    hyper = read_hyperparameters(arch, gguf.metadata)
    if any(hyper.windows) or hyper.rotary_dim != hyper.head_dim or hyper.final_softcap:
        raise UnsupportedError("a small model cannot be made of a model with attention windows or softcaps")
    return hyper


def _plain(arch: Architecture) -> bool:
    """Return whether all layers are attention and gated MLP, with two norms, and rotate alike."""
    others = arch.fused or arch.post_norms or arch.no_rope_period or arch.recurrent or arch.experts
    return not others and arch.activation == "silu"


def _floats(gguf: GgufSource, tensor: TensorInfo) -> Floats:
    if len(tensor.shape) == 1:
        return gguf.vector(tensor)
    packed = gguf.rows(tensor, 0, tensor.shape[0])
    found: Floats = quants.dequantize(packed, tensor.type).astype(np.float32, copy=False)
    return found
