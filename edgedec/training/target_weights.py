"""Reads weights of an exported target as floats: its embedding table, its head, its last layer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from edgedec.bundle.manifest import MODEL, WEIGHTS, Manifest
from edgedec.core.errors import BadFileError, UnsupportedError
from edgedec.core.quick_dataclass import dataclass
from edgedec.export.model import attributes
from edgedec.kernels.packing.layout import TILE, dequantise

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Table:
    """A packed matrix [rows, cols] of weights.bin, read tile by tile."""

    format: str
    rows: int
    cols: int
    packed: NDArray[np.uint8]

    def gather(self, ids: Sequence[int] | NDArray[np.integer[Any]]) -> Floats:
        """Return the rows ``ids``, f32[n, cols], in that order."""
        wanted, places = np.unique(np.asarray(ids, dtype=np.int64), return_inverse=True)
        tiles, where = np.unique(wanted // TILE, return_inverse=True)
        values = dequantise(self.format, self.packed[tiles], len(tiles) * TILE, self.cols)
        found: Floats = values[where * TILE + wanted % TILE][places.ravel()]
        return found

    def whole(self) -> Floats:
        """Return all rows, f32[rows, cols]."""
        return dequantise(self.format, self.packed, self.rows, self.cols)


def refuse_experts(manifest: Manifest) -> None:
    """Raise UnsupportedError for a model with experts."""
    if manifest.spec.experts:
        raise UnsupportedError(
            f"{manifest.name} has experts: no head can be trained for it yet",
            hint="lookup and recycling draft for it without training",
        )


class TargetWeights:
    """The weights of the bundle at ``bundle``, by the names that they have in GGUF files.

    Raises UnsupportedError for a bundle that does not run in EdgeDec's kernels, or that has experts.
    """

    def __init__(self, bundle: Path, manifest: Manifest) -> None:
        if manifest.kind != "edgedec":
            raise UnsupportedError(
                f"{manifest.name} does not run in EdgeDec's kernels: nothing can be trained for it",
                hint="export the model for EdgeDec's kernels",
            )
        refuse_experts(manifest)
        graph = onnx.load(str(bundle / MODEL), load_external_data=False).graph
        self._file = np.memmap(bundle / WEIGHTS, dtype=np.uint8, mode="r")
        self._stored = {tensor.name: tensor for tensor in graph.initializer}
        self._sizes: dict[str, tuple[str, int, int]] = {}
        self.rope_base = 10_000.0
        self.epsilon = 1e-5
        self.interleaved = False
        last = f"blk.{manifest.spec.n_layers - 1}."
        for node in graph.node:
            facts = attributes(node)
            if node.op_type in ("QuantEmbedding", "HeadTopK"):
                name = node.input[1]
                self._sizes[name] = (str(facts["format"]), _int(facts["rows"]), _int(facts["cols"]))
                if node.op_type == "HeadTopK":
                    self.head = self.table(name)
                else:
                    self.embedding = self.table(name)
            elif node.op_type in ("QuantLinear", "GatedMLP"):
                self._note(node, facts)
            elif node.op_type == "TreeAttention" and node.name.startswith(last):
                self.interleaved = bool(facts["interleaved"])
            elif node.op_type == "RMSNorm":
                self.epsilon = float(str(facts["epsilon"]))
        if "rotary.inv_freq" in self._stored:
            self.rope_base = _base(self.vector("rotary.inv_freq"))

    def table(self, name: str) -> Table:
        """Return a packed matrix. Raises BadFileError when the bundle has none of that name."""
        if name not in self._stored or name not in self._sizes:
            raise BadFileError(f"the bundle has no matrix {name}", hint="pull or export the model again")
        format, rows, cols = self._sizes[name]
        packed = self._bytes(name).reshape(tuple(self._stored[name].dims))
        return Table(format, rows, cols, packed)

    def has(self, name: str) -> bool:
        """Return whether the bundle has a weight of that name."""
        return name in self._stored

    def vector(self, name: str) -> Floats:
        """Return a vector of floats."""
        tensor = self._stored[name]
        data = self._bytes(name) if tensor.external_data else np.frombuffer(tensor.raw_data, dtype=np.uint8)
        return np.array(data.view("<f4"), dtype=np.float32)

    def _bytes(self, name: str) -> NDArray[np.uint8]:
        place = {entry.key: entry.value for entry in self._stored[name].external_data}
        start = int(place["offset"])
        return self._file[start : start + int(place["length"])]

    def _note(self, node: onnx.NodeProto, facts: dict[str, Any]) -> None:
        """Note formats and sizes of the matrices of a linear op; a gated MLP has two of the same size."""
        formats = str(facts["formats"]).split(",")
        names = [name for name in node.input if name in self._stored and name.endswith(".weight")]
        names = names[-len(formats) :]
        rows = facts["rows"] if isinstance(facts["rows"], list) else [facts["rows"]] * len(names)
        for name, format, count in zip(names, formats, rows, strict=True):
            self._sizes[name] = (format, int(count), int(facts["cols"]))


def _int(value: object) -> int:
    assert isinstance(value, int)
    return value


def _base(inverse: Floats) -> float:
    """Return the base of inverse frequencies base^(-2 i / d), by the first two of them."""
    if inverse.size < 2 or inverse[0] <= 0 or inverse[1] <= 0:
        return 10_000.0
    return float((float(inverse[0]) / float(inverse[1])) ** inverse.size)


class KnownRows:
    """Rows of a table as floats, each unpacked once by ``gather``. Rows that are not used take no memory."""

    def __init__(self, rows: int, cols: int, gather: Callable[[NDArray[np.int64]], Floats]) -> None:
        self._gather = gather
        self._values = np.zeros((rows, cols), dtype=np.float32)
        self._known = np.zeros(rows, dtype=np.bool_)

    def gather(self, ids: NDArray[np.int64]) -> Floats:
        """Return the rows ``ids`` of any shape, f32[..., cols]."""
        wanted = np.unique(ids)
        if (missing := wanted[~self._known[wanted]]).size:
            self._values[missing] = self._gather(missing)
            self._known[missing] = True
        found: Floats = self._values[ids]
        return found
