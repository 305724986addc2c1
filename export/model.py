"""The graph under construction: ONNX nodes, and weights that still refer to the source's tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field, replace
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper

from edgedec.bundle.manifest import WEIGHTS
from edgedec.core.quick_dataclass import dataclass
from edgedec.export.gguf_header import TensorInfo
from edgedec.kernels.packing.experts import ExpertPlaces, expert_places
from edgedec.kernels.packing.layout import FORMATS
from edgedec.kernels.packing.recode import packed_format

DOMAIN = "ai.edgedec"
CACHE, RINGS = "kv_cache", "kv_window"
"""Inputs: the KV cache of layers without a window, and the rings of slots of layers with one."""
ATTENTION = "attention"
"""Input into which the kernels write the attention weights of layers without a window; may be empty."""
OPSET = 21
IR_VERSION = 10


@dataclass(frozen=True, slots=True)
class PackedWeight:
    """A quantised matrix to be packed as u8[tiles, bytes per tile]; see ``kernels.packing.layout``."""

    tensor: TensorInfo
    first: int
    """Row of the tensor at which the matrix begins."""
    rows: int
    order: NDArray[np.int64] | None = field(default=None, compare=False)
    """Rows of the tensor, in the order of the matrix; None: as they lie, from ``first`` on."""

    def read(self, fetch: Callable[[int, int], NDArray[Any]], start: int, stop: int) -> NDArray[Any]:
        """Return rows [start, stop) of the matrix; ``fetch`` returns such a range of the tensor's rows."""
        if self.order is None:
            return fetch(self.first + start, self.first + stop)
        picked = self.order[start:stop]
        low = int(picked.min())
        return fetch(low, int(picked.max()) + 1)[picked - low]

    @property
    def format(self) -> str:
        """Format of the packed matrix, which has the weights of the tensor's type."""
        return packed_format(self.tensor.format) or self.tensor.format

    @property
    def cols(self) -> int:
        return self.tensor.shape[-1]

    @property
    def shape(self) -> tuple[int, ...]:
        return FORMATS[self.format].packed_shape(self.rows, self.cols)

    @property
    def nbytes(self) -> int:
        return self.shape[0] * self.shape[1]


@dataclass(frozen=True, slots=True)
class ExpertsWeight:
    """The matrices of all experts of a layer, to be packed as u8[experts, stride].

    The row of an expert has its matrices, each packed as a ``PackedWeight``, and biases, at their ``places``,
    and zeros between and behind them.
    """

    count: int
    first: tuple[PackedWeight, ...]
    """Gate, up and down of the first expert."""
    steps: tuple[int, ...]
    """Rows of each of their tensors from one expert to the next."""
    biases: NDArray[np.float32] | None = field(default=None, compare=False)
    """Those of gate, up and down of each expert, f32[experts, rows of all]; None: there are none."""

    def matrices(self, expert: int) -> tuple[PackedWeight, ...]:
        """Return gate, up and down of one expert."""
        return tuple(
            replace(matrix, first=matrix.first + expert * step)
            for matrix, step in zip(self.first, self.steps, strict=True)
        )

    @property
    def formats(self) -> str:
        """Formats of gate, up and down, as nodes state them."""
        return ",".join(matrix.format for matrix in self.first)

    @property
    def places(self) -> ExpertPlaces:
        """Where the matrices of an expert lie in its row, and its size."""
        gate, up, down = self.first
        biased = self.biases is not None
        return expert_places((gate.format, up.format, down.format), gate.rows, gate.cols, biased=biased)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.count, self.places.stride

    @property
    def nbytes(self) -> int:
        return self.shape[0] * self.shape[1]


@dataclass(frozen=True, slots=True)
class VectorWeight:
    """A small f32 vector, held in memory."""

    values: NDArray[np.float32]

    @property
    def shape(self) -> tuple[int, ...]:
        return self.values.shape

    @property
    def nbytes(self) -> int:
        return int(self.values.nbytes)


Weight = PackedWeight | ExpertsWeight | VectorWeight


@dataclass(slots=True)
class ExportModel:
    """Nodes in topological order, weights by name.

    ``placements`` maps the name of a weight to its offset in weights.bin, in bytes.
    """

    inputs: list[onnx.ValueInfoProto]
    outputs: list[onnx.ValueInfoProto]
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    weights: dict[str, Weight] = field(default_factory=dict)
    placements: dict[str, int] = field(default_factory=dict)
    functions: list[onnx.FunctionProto] = field(default_factory=list)
    """Bodies of the ops in standard ONNX."""

    def producers(self) -> dict[str, onnx.NodeProto]:
        """Map the name of each value to the node that computes it."""
        return {name: node for node in self.nodes for name in node.output if name}

    def uses(self) -> dict[str, int]:
        """Map the name of each value to the number of nodes and graph outputs that read it."""
        counts: dict[str, int] = {}
        for name in [n for node in self.nodes for n in node.input] + [o.name for o in self.outputs]:
            counts[name] = counts.get(name, 0) + 1
        return counts

    def replace(self, old: list[onnx.NodeProto], last: onnx.NodeProto, new: onnx.NodeProto) -> None:
        """Put ``new`` in the place of ``last`` and drop the nodes of ``old``, which include ``last``."""
        gone = {id(node) for node in old} - {id(last)}
        self.nodes = [new if node is last else node for node in self.nodes if id(node) not in gone]

    def drop_unused_weights(self) -> None:
        used = self.uses()
        self.weights = {name: weight for name, weight in self.weights.items() if name in used}

    def to_onnx(self, name: str, metadata: Mapping[str, str]) -> onnx.ModelProto:
        """Return the ONNX model. Placed weights become external data; small ones stay inside."""
        initialisers = [self._initialiser(key, weight) for key, weight in self.weights.items()]
        graph = helper.make_graph(self.nodes, name, self.inputs, self.outputs, initialisers)
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(DOMAIN, 1)]
        model = helper.make_model(
            graph,
            functions=self.functions,
            opset_imports=opsets,
            ir_version=IR_VERSION,
            producer_name="edgedec",
        )
        helper.set_model_props(model, dict(metadata))
        return model

    def _initialiser(self, name: str, weight: Weight) -> TensorProto:
        floats = isinstance(weight, VectorWeight)
        tensor = TensorProto(name=name, data_type=TensorProto.FLOAT if floats else TensorProto.UINT8)
        tensor.dims.extend(weight.shape)
        if name in self.placements:
            tensor.data_location = TensorProto.EXTERNAL
            place = {"location": WEIGHTS, "offset": str(self.placements[name]), "length": str(weight.nbytes)}
            for key, value in place.items():
                tensor.external_data.add(key=key, value=value)
        elif isinstance(weight, VectorWeight):
            tensor.raw_data = weight.values.astype("<f4").tobytes()
        return tensor


def attributes(node: onnx.NodeProto) -> dict[str, object]:
    """Return the attributes of a node as Python values, with strings decoded."""
    out: dict[str, object] = {}
    for attribute in node.attribute:
        value = helper.get_attribute_value(attribute)
        if isinstance(value, bytes):
            value = value.decode()
        elif attribute.type == onnx.AttributeProto.STRINGS:
            value = [item.decode() for item in value]
        elif attribute.type == onnx.AttributeProto.INTS:
            value = list(value)
        out[attribute.name] = value
    return out
