"""The tables of a target's bundle that a drafting head shares or copies from."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray

from edgedec.bundle.manifest import MODEL, WEIGHTS
from edgedec.core.errors import UnsupportedError
from edgedec.core.quick_dataclass import dataclass
from edgedec.export.draft_head.weights import Floats
from edgedec.export.model import attributes
from edgedec.kernels.packing.layout import TILE, dequantise

_EMBEDDING = "embedding"
"""The node that looks tokens up."""


@dataclass(frozen=True, slots=True)
class EmbeddingTable:
    """A packed table [rows, cols] in the target's weights.bin: where it begins, and its tiles."""

    format: str
    rows: int
    cols: int
    offset: int
    tiles: int
    tile_bytes: int


@dataclass(frozen=True, slots=True)
class LastNorm:
    """The norm before the target's head."""

    weight: NDArray[np.float32]
    epsilon: float


def last_norm(bundle: Path) -> LastNorm:
    """Return the norm before the target's head. Raises UnsupportedError for a bundle of another kind."""
    graph = onnx.load(str(bundle / MODEL), load_external_data=False).graph
    read = next((node.input[0] for node in graph.node if node.op_type == "HeadTopK"), None)
    norm = next((node for node in graph.node if read in node.output and node.op_type == "RMSNorm"), None)
    weight = next((one for one in graph.initializer if norm and one.name == norm.input[1]), None)
    if norm is None or weight is None:
        raise _other(bundle, "norm before its head")
    epsilon = float(str(attributes(norm)["epsilon"]))
    if not weight.external_data:
        return LastNorm(np.frombuffer(weight.raw_data, "<f4").astype(np.float32), epsilon)
    place = {entry.key: entry.value for entry in weight.external_data}
    stored = np.fromfile(bundle / WEIGHTS, "<f4", weight.dims[0], offset=int(place["offset"]))
    return LastNorm(stored.astype(np.float32), epsilon)


def embedding_table(bundle: Path) -> EmbeddingTable:
    """Return the table of token embeddings. Raises UnsupportedError for a bundle of another kind."""
    return _table(bundle, "QuantEmbedding")


def head_table(bundle: Path) -> EmbeddingTable:
    """Return the table of the model's head. Raises UnsupportedError for a bundle of another kind."""
    return _table(bundle, "HeadTopK")


def head_rows(bundle: Path, keep: NDArray[np.int64]) -> Floats:
    """Return the rows ``keep`` of the target's own head, f32[k, d]. Raises UnsupportedError."""
    table = _table(bundle, "HeadTopK")
    shape = (table.tiles, table.tile_bytes)
    packed = np.memmap(bundle / WEIGHTS, np.uint8, "r", table.offset, shape)
    out = np.empty((keep.size, table.cols), dtype=np.float32)
    for tile in np.unique(keep // TILE).tolist():
        mine = np.flatnonzero(keep // TILE == tile)
        values = dequantise(table.format, packed[tile : tile + 1], TILE, table.cols)
        out[mine] = values[keep[mine] % TILE]
    return out


def _table(bundle: Path, op: str) -> EmbeddingTable:
    graph = onnx.load(str(bundle / MODEL), load_external_data=False).graph
    nodes = [node for node in graph.node if node.op_type == op]
    # A model may have tables of embeddings for its layers, too.
    node = next((node for node in nodes if node.name == _EMBEDDING), nodes[0] if nodes else None)
    weight = next((one for one in graph.initializer if node and one.name == node.input[1]), None)
    if node is None or weight is None or not weight.external_data:
        raise _other(bundle, op)
    facts = attributes(node)
    place = {entry.key: entry.value for entry in weight.external_data}
    return EmbeddingTable(
        str(facts["format"]),
        int(str(facts["rows"])),
        int(str(facts["cols"])),
        int(place["offset"]),
        *map(int, weight.dims),
    )


def _other(bundle: Path, lacks: str) -> UnsupportedError:
    return UnsupportedError(
        f"no head can draft for the model at {bundle}: its graph has no {lacks}",
        hint="export the model for EdgeDec's kernels",
    )
