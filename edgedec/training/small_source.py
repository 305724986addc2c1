"""A GGUF file of a small model as training reads it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edgedec.core.errors import BadFileError, UnsupportedError
from edgedec.export.architectures import ARCHITECTURES, Architecture
from edgedec.export.blocks.rotary import ROPE_FACTORS, inverse_frequencies
from edgedec.export.gguf_header import TensorInfo
from edgedec.export.gguf_source import GgufSource, open_gguf
from edgedec.export.hyperparameters import Hyperparameters, read_hyperparameters
from edgedec.export.nextn import nextn_tensors
from edgedec.training.target_weights import Floats

EMBEDDING, HEAD = "token_embd.weight", "output.weight"
TABLES = (EMBEDDING, HEAD, ROPE_FACTORS)
"""Tensors that training leaves as they are."""


class GgufTable:
    """A matrix of a GGUF file whose rows are unpacked when they are used."""

    def __init__(self, source: GgufSource, tensor: TensorInfo) -> None:
        self.rows, self.cols = tensor.shape
        self._tensor = tensor
        self.packed = source.rows(tensor, 0, self.rows)
        self.format = tensor.format

    def gather(self, ids: NDArray[np.int64]) -> Floats:
        """Return the rows ``ids``, f32[n, cols]."""
        return self._tensor.values(self.packed[ids])


class SmallSource:
    """The model in the GGUF file ``path``: its layers as floats, its tables by the row.

    Raises NotFoundError, BadFileError, and UnsupportedError for an architecture that training does not know.
    """

    def __init__(self, path: Path) -> None:
        with open_gguf(path) as gguf:
            self.path = gguf.path
            self.metadata: Mapping[str, object] = gguf.metadata
            self.hyper = _hyperparameters(gguf)
            if EMBEDDING not in gguf.tensors:
                raise BadFileError(f"{path} lacks tensor {EMBEDDING}")
            self.embedding = GgufTable(gguf, gguf.tensors[EMBEDDING])
            self.head = GgufTable(gguf, gguf.tensors[HEAD]) if HEAD in gguf.tensors else self.embedding
            factors = gguf.vector(gguf.tensors[ROPE_FACTORS]) if ROPE_FACTORS in gguf.tensors else None
            others = {*TABLES, *nextn_tensors(self.hyper, gguf.tensors)}
            self.arrays = {
                name: _floats(gguf, tensor) for name, tensor in gguf.tensors.items() if name not in others
            }
        base, dim, divisor = self.hyper.rope_base, self.hyper.head_dim, self.hyper.rope_divisor
        self.frequencies = inverse_frequencies(base, dim, divisor, factors)

    @property
    def vocabulary(self) -> int:
        """Number of tokens."""
        return self.embedding.rows


def _hyperparameters(gguf: GgufSource) -> Hyperparameters:
    name = str(gguf.metadata.get("general.architecture"))
    arch = ARCHITECTURES.get(name)
    if arch is None or not _plain(arch):
        known = [one.name for one in ARCHITECTURES.values() if _plain(one)]
        raise UnsupportedError(
            f"a model of architecture {name[:40]!r} cannot be trained", hint=f"use {', '.join(known)}"
        )
    hyper = read_hyperparameters(arch, gguf.metadata)
    if any(hyper.windows) or hyper.rotary_dim != hyper.head_dim or hyper.final_softcap:
        raise UnsupportedError("a model with attention windows or softcaps cannot be trained")
    return hyper


def _plain(arch: Architecture) -> bool:
    """Return whether all layers are attention and gated MLP, with two norms, and rotate alike."""
    others = arch.fused or arch.post_norms or arch.no_rope_period or arch.recurrent or arch.experts
    return not others and arch.activation == "silu"


def _floats(gguf: GgufSource, tensor: TensorInfo) -> Floats:
    if len(tensor.shape) == 1:
        return gguf.vector(tensor)
    return tensor.values(gguf.rows(tensor, 0, tensor.shape[0]))
