"""Writes the matrices of an NPU's graphs into one file, as 8-bit integers with a scale for each row."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from edgedec.core.quick_dataclass import dataclass
from edgedec.export.calibration.evaluate import F32, Floats
from edgedec.export.npu.scheme import quantised_rows
from edgedec.export.npu.static_graph import Matrix, StaticGraph

_ALIGN = 4096
_CHUNK = 1 << 22
"""Numbers of a matrix that are read at a time."""


@dataclass(frozen=True, slots=True)
class StoredMatrix:
    """Integers i8[rows, K] at a byte of the file of weights, and a scale for each row."""

    shape: tuple[int, int]
    scale: NDArray[np.float32]
    offset: int

    @property
    def nbytes(self) -> int:
        return self.shape[0] * self.shape[1]


@dataclass(frozen=True, slots=True)
class StoredWeights:
    """The matrices by name, and the byte at which the scales f32[V] of the embedding lie."""

    matrices: dict[str, StoredMatrix]
    table: str
    scales: int


def store_weights(
    graph: StaticGraph, floats: Floats, path: Path, progress: Callable[[int, int], None]
) -> StoredWeights:
    """Write the matrices of ``graph`` and the table of its embedding. Raises the errors of ``floats``."""
    wanted = {graph.table: Matrix(graph.packed_table), **graph.matrices}
    total, found = sum(one.weight.rows * one.weight.cols for one in wanted.values()), {}
    with path.open("wb") as stream:
        for name, matrix in wanted.items():
            found[name] = _store(stream, matrix, floats)
            progress(sum(one.nbytes for one in found.values()), total)
        scales = _aligned(stream)
        stream.write(found[graph.table].scale.astype("<f4").tobytes())
    return StoredWeights(found, graph.table, scales)


def read(matrix: Matrix, floats: Floats) -> F32:
    """Return the floats of a matrix as the graph has it."""
    return np.concatenate(list(_pieces(matrix, floats)))


def _store(stream: BinaryIO, matrix: Matrix, floats: Floats) -> StoredMatrix:
    offset, scales = _aligned(stream), []
    for rows in _pieces(matrix, floats):
        integers, scale = quantised_rows(rows)
        stream.write(integers.tobytes())
        scales.append(scale)
    return StoredMatrix((matrix.weight.rows, matrix.weight.cols), np.concatenate(scales), offset)


def _pieces(matrix: Matrix, floats: Floats) -> Iterator[F32]:
    """Yield rows of a matrix, a few at a time; all at once where they are taken in another order."""
    weight = matrix.weight
    step = weight.rows if matrix.order is not None else max(1, _CHUNK // weight.cols)
    for start in range(0, weight.rows, step):
        stop = min(start + step, weight.rows)
        rows = weight.read(lambda first, end: floats(weight, first, end), start, stop)
        if matrix.order is not None:
            rows = rows[matrix.order]
        yield rows if matrix.factor == 1.0 else rows * np.float32(matrix.factor)


def _aligned(stream: BinaryIO) -> int:
    stream.write(bytes(-stream.tell() % _ALIGN))
    return stream.tell()
