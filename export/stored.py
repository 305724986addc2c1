"""Reads the weights of a finished graph back: matrices as floats, or as the GGUF blocks that they were."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from edgedec.bundle.manifest import WEIGHTS
from edgedec.core.errors import UnsupportedError
from edgedec.core.quick_dataclass import dataclass
from edgedec.export.gguf_writer import GgufTensor
from edgedec.export.model import attributes
from edgedec.kernels.packing.experts import expert_places
from edgedec.kernels.packing.layout import FORMATS, TILE, chunk_rows, dequantise, unpack_rows

_WITH_MATRICES = ("QuantEmbedding", "QuantLinear", "GatedMLP", "HeadTopK")


@dataclass(frozen=True, slots=True)
class GraphMatrix:
    """A packed matrix [rows, cols]: u8[tiles, bytes of a tile], at ``offset`` bytes of its file."""

    format: str
    rows: int
    cols: int
    packed: NDArray[np.uint8]
    offset: int = 0

    @property
    def shape(self) -> tuple[int, int]:
        return self.rows, self.cols

    @property
    def tiles(self) -> int:
        return len(self.packed)

    @property
    def tile_bytes(self) -> int:
        return int(self.packed.shape[1])

    def read(self, start: int, stop: int) -> NDArray[np.float32]:
        """See ``weights.RowReader``."""
        return self.gather(np.arange(start, stop))

    def gather(self, ids: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the rows ``ids`` as floats f32[n, cols], in that order."""
        out = np.empty((ids.size, self.cols), np.float32)
        tiles, where = np.unique(ids // TILE, return_inverse=True)
        step = chunk_rows(self.cols) // TILE
        for start in range(0, len(tiles), step):
            part = tiles[start : start + step]
            values = dequantise(self.format, self.packed[part], len(part) * TILE, self.cols)
            mine = np.flatnonzero((where >= start) & (where < start + step))
            out[mine] = values[(where[mine] - start) * TILE + ids[mine] % TILE]
        return out

    def blocks(self) -> NDArray[np.uint8]:
        """Return its rows as GGUF blocks, u8[rows, bytes of a row].

        Raises UnsupportedError for a format that holds several GGUF types: which one it was is not known.
        """
        if FORMATS[self.format].recoded:
            raise UnsupportedError(
                f"weights in {self.format} have no GGUF form of their own",
                hint="start from a Q4_K_M file of the model",
            )
        out = np.empty((self.rows, FORMATS[self.format].row_bytes(self.cols)), np.uint8)
        step = chunk_rows(self.cols)
        for start in range(0, self.rows, step):
            end = min(start + step, self.rows)
            tiles = self.packed[start // TILE : -(-end // TILE)]
            out[start:end] = unpack_rows(self.format, tiles, end - start, self.cols)
        return out


@dataclass(frozen=True, slots=True)
class GraphExperts:
    """The experts of a layer: u8[experts, bytes of an expert], with matrices of ``formats``.

    ``width`` are the rows of a gate, ``cols`` those of a down matrix.
    """

    formats: tuple[str, str, str]
    width: int
    cols: int
    packed: NDArray[np.uint8]

    def blocks(self) -> list[NDArray[np.uint8]]:
        """Return gate, up and down of all as GGUF blocks, u8[experts, rows, bytes of a row]."""
        places, found = expert_places(self.formats, self.width, self.cols), []
        shapes = ((self.width, self.cols), (self.width, self.cols), (self.cols, self.width))
        for format, (rows, cols), start in zip(self.formats, shapes, places[:3], strict=True):
            tiles, of_a_tile = FORMATS[format].packed_shape(rows, cols)
            parts = self.packed[:, start : start + tiles * of_a_tile].reshape(-1, tiles, of_a_tile)
            found.append(np.stack([GraphMatrix(format, rows, cols, part).blocks() for part in parts]))
        return found


class GraphWeights:
    """The weights of the graph ``name`` in ``folder``, by their names.

    A damaged graph fails with an error of protobuf or NumPy, or a KeyError.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self.folder = folder
        self.graph = onnx.load(str(folder / name), load_external_data=False).graph
        self._stored = {tensor.name: tensor for tensor in self.graph.initializer}
        self._data = np.memmap(folder / WEIGHTS, dtype=np.uint8, mode="r")
        self.matrices: dict[str, GraphMatrix] = {}
        self.experts: dict[str, GraphExperts] = {}
        for node in self.graph.node:
            if node.op_type == "Experts":
                self.experts[node.input[2]] = self._experts(node)
            if node.op_type in _WITH_MATRICES:
                facts = attributes(node)
                for matrix, format, rows in _matrices_of(node, facts, self._stored):
                    offset, packed = self._bytes(matrix)
                    self.matrices[matrix] = GraphMatrix(format, rows, int(str(facts["cols"])), packed, offset)

    def has(self, name: str) -> bool:
        """Return whether a weight is the graph's own, and no input."""
        return name in self._stored

    def _experts(self, node: onnx.NodeProto) -> GraphExperts:
        facts, (_, packed) = attributes(node), self._bytes(node.input[2])
        gate, up, down = str(facts["formats"]).split(",")
        return GraphExperts((gate, up, down), int(str(facts["rows"])), int(str(facts["cols"])), packed)

    def vector(self, name: str) -> NDArray[np.float32]:
        """Return a small f32 vector."""
        _, data = self._bytes(name)
        return np.array(data.view("<f4"), dtype=np.float32)

    def tensor(self, name: str) -> GgufTensor:
        """Return a weight as it was in a GGUF file."""
        if name not in self.matrices:
            return GgufTensor(name, self.vector(name))
        matrix = self.matrices[name]
        return GgufTensor(name, matrix.blocks(), matrix.format)

    def names(self) -> list[str]:
        """Return the names of the weights, which are those in a GGUF file but for experts."""
        return [name for name in self._stored if name.endswith(".weight")]

    def _bytes(self, name: str) -> tuple[int, NDArray[np.uint8]]:
        """Return the bytes of a weight, and their place in weights.bin; a vector may lie in the graph."""
        tensor = self._stored[name]
        if not tensor.external_data:
            return 0, np.frombuffer(tensor.raw_data, dtype=np.uint8)
        place = {entry.key: int(entry.value) for entry in tensor.external_data if entry.key != "location"}
        data = np.asarray(self._data[place["offset"] : place["offset"] + place["length"]])
        packed = tensor.data_type == onnx.TensorProto.UINT8
        return place["offset"], data.reshape(tuple(tensor.dims)) if packed else data


def _matrices_of(
    node: onnx.NodeProto, facts: Mapping[str, Any], stored: Mapping[str, onnx.TensorProto]
) -> list[tuple[str, str, int]]:
    """Return name, format and rows of each matrix of an op."""
    names = [name for name in node.input if name in stored and len(stored[name].dims) == 2]
    formats = str(facts.get("formats", facts.get("format"))).split(",")
    rows = facts["rows"] if isinstance(facts["rows"], list) else [facts["rows"]] * len(names)
    return list(zip(names, formats if names else [], map(int, rows), strict=True))
