"""Takes tensors out of a GGUF file by name and shape, and notices those that nobody took."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from edgedec.core.errors import BadFileError, UnsupportedError
from edgedec.export.gguf_header import TensorInfo
from edgedec.export.model import ExpertsWeight, PackedWeight, VectorWeight
from edgedec.export.source import WeightSource
from edgedec.kernels.packing.recode import packed_format, readable_types


class Part(NamedTuple):
    """A part of a taller matrix: it begins at row ``first`` of ``tensor``, which has ``height`` rows.

    ``order`` returns its rows, int64[rows], where they are to be taken in another order than they lie. It is
    called once the shape is known to be right.
    """

    tensor: str
    first: int
    height: int
    order: Callable[[], NDArray[np.int64]] | None = None


class Tensors:
    """Checked access to the tensors of ``source``.

    Methods raise BadFileError for wrong shapes and UnsupportedError for formats without a kernel.
    """

    def __init__(self, source: WeightSource) -> None:
        self._source = source
        self._taken: set[str] = set()

    def has(self, name: str) -> bool:
        return name in self._source.tensors

    def matrix(self, name: str, rows: int, cols: int, part: Part | None = None) -> PackedWeight:
        """Return a matrix [rows, cols] that can be packed; with ``part``, it is rows of a taller tensor."""
        where = part or Part(name, 0, rows)
        tensor = self._take_packed(where.tensor, (where.height, cols))
        return PackedWeight(tensor, where.first, rows, where.order() if where.order else None)

    def experts(self, block: str, count: int, width: int, hidden: int, biased: bool) -> ExpertsWeight:
        """Return gate, up and down of all experts of a layer, whose tensors begin with ``block``, and biases.

        One tensor for each of the three has all experts; gate and up may share one, gate first.
        """
        fused = f"{block}ffn_gate_up_exps.weight"
        if self.has(fused):
            both = self._take_packed(fused, (count, 2 * width, hidden))
            gate, up = PackedWeight(both, 0, width), PackedWeight(both, width, width)
        else:
            gate, up = (
                PackedWeight(
                    self._take_packed(f"{block}ffn_{name}_exps.weight", (count, width, hidden)), 0, width
                )
                for name in ("gate", "up")
            )
        down = PackedWeight(
            self._take_packed(f"{block}ffn_down_exps.weight", (count, hidden, width)), 0, hidden
        )
        parts = (gate, up, down)
        biases = None
        if biased:
            rows = {"gate": width, "up": width, "down": hidden}
            each = [self.array(f"{block}ffn_{name}_exps.bias", (count, size)) for name, size in rows.items()]
            biases = np.concatenate([one.values for one in each], axis=1)
        return ExpertsWeight(count, parts, tuple(part.tensor.shape[1] for part in parts), biases)

    def vector(self, name: str, size: int) -> VectorWeight:
        return VectorWeight(self._finite(name, self._source.vector(self._take(name, (size,)))))

    def array(self, name: str, shape: tuple[int, int]) -> VectorWeight:
        """Return a small matrix of floats, which is not packed."""
        values = self._source.vector(self._take(name, shape))
        return VectorWeight(self._finite(name, values.reshape(shape)))

    def names(self) -> list[str]:
        """Return the names of all tensors."""
        return list(self._source.tensors)

    def leave(self, names: Iterable[str]) -> None:
        """Count tensors as used that belong to another part of the model."""
        self._taken |= set(names)

    def rows_of(self, name: str) -> int:
        """Return the number of rows of a matrix, for one whose height is not known: the vocabulary."""
        tensor = self._source.tensors.get(name)
        if tensor is None or len(tensor.shape) != 2:
            raise BadFileError(f"{self._source.title} lacks a matrix {self._source.spelling(name)}")
        return tensor.shape[0]

    def require_all_taken(self) -> None:
        """Refuse a file with tensors that the graph did not use: it would be another model."""
        if left := sorted(self._source.tensors.keys() - self._taken):
            name = self._source.spelling(left[0])
            raise UnsupportedError(
                f"the model has a tensor {name[:60]!r}, which its architecture does not use"
            )

    def shared_expert(self, block: str, width: int, hidden: int) -> ExpertsWeight:
        """Return the expert of a layer that computes every token, as a mixture of this one."""
        sizes = {"gate": (width, hidden), "up": (width, hidden), "down": (hidden, width)}
        parts = [self.matrix(f"{block}ffn_{name}_shexp.weight", *size) for name, size in sizes.items()]
        return ExpertsWeight(1, tuple(parts), (0, 0, 0))

    def row(self, name: str, cols: int) -> PackedWeight:
        """Return a matrix of one row, which GGUF files hold as a vector."""
        stored = self._source.tensors.get(name)
        flat = stored is None or len(stored.shape) == 1
        tensor = self._take_packed(name, (cols,) if flat else (1, cols))
        return PackedWeight(replace(tensor, shape=(1, cols)), 0, 1)

    def _take_packed(self, name: str, shape: tuple[int, ...]) -> TensorInfo:
        """Take a tensor whose rows can be packed."""
        tensor = self._take(name, shape)
        if packed_format(tensor.format) is None:
            raise UnsupportedError(
                f"tensor {name} is {tensor.type.name}, which has no kernel",
                hint=f"use a file of one of {', '.join(readable_types())}, or a Q4_K_M file",
            )
        return tensor

    def _take(self, name: str, shape: tuple[int, ...]) -> TensorInfo:
        tensor = self._source.tensors.get(name)
        if tensor is None:
            raise BadFileError(f"{self._source.title} lacks tensor {self._source.spelling(name)}")
        if tensor.shape != shape:
            raise BadFileError(
                f"tensor {self._source.spelling(name)} has shape {list(tensor.shape)}, not {list(shape)}"
            )
        self._taken.add(name)
        return tensor

    @staticmethod
    def _finite(name: str, values: NDArray[np.float32]) -> NDArray[np.float32]:
        if not np.isfinite(values).all():
            raise BadFileError(f"tensor {name} holds values that are not finite", hint="download it again")
        return values
