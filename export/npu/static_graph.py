"""A pass of fixed length in standard ops and floats, under construction."""

from __future__ import annotations

from dataclasses import field
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper

from edgedec.core.quick_dataclass import dataclass
from edgedec.export.model import PackedWeight

EMBEDDED, SLOTS, LOGITS = "embedding", "slots", "logits"
MASK, LOCAL_MASK = "mask", "mask_local"
"""Inputs f32[1, G * N, S] that are added to scores, G times the same: of all tokens, and of a window."""


@dataclass(frozen=True, slots=True)
class Matrix:
    """A matrix of floats: rows of ``weight`` in another order, multiplied by ``factor``."""

    weight: PackedWeight
    order: NDArray[np.int64] | None = None
    factor: float = 1.0


@dataclass(slots=True)
class StaticGraph:
    """Nodes in standard ops, in topological order, and what they read by name."""

    tokens: int
    slots: int
    packed_table: PackedWeight = field(init=False)
    """The matrix that embeddings are rows of."""
    table: str = ""
    """Its name."""
    inputs: dict[str, tuple[int, list[int]]] = field(default_factory=dict)
    """Name -> element type of ONNX, shape."""
    outputs: list[str] = field(default_factory=list)
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    matrices: dict[str, Matrix] = field(default_factory=dict)
    vectors: dict[str, NDArray[np.float32]] = field(default_factory=dict)
    integers: dict[str, NDArray[np.int64]] = field(default_factory=dict)
    rotary: dict[str, str] = field(default_factory=dict)
    """Rotary table -> name of the vector of its frequencies."""
    factors: dict[str, str] = field(default_factory=dict)
    """Rotary table -> name of the vector of factors on it, where it has one."""
    embedding_factor: float = 1.0
    window: int = 0
    """Tokens that a layer with a window sees; 0 without such layers."""
    layers: int = 0
    group: int = 1
    """Query heads to a key head."""
    within: str = ""
    """The beginning of names of nodes that are added."""

    def op(self, kind: str, inputs: list[str], name: str, **attrs: Any) -> str:
        """Add a node with one output, and return its name. The node's name begins with its layer's."""
        self.nodes.append(helper.make_node(kind, inputs, [name], self.within + name, **attrs))
        return name

    def take(self, name: str, kind: int, shape: list[int]) -> str:
        """Add an input, and return its name."""
        self.inputs[name] = (kind, shape)
        return name

    def whole(self, name: str, values: list[int]) -> str:
        """Add a vector of integers, and return its name."""
        self.integers[name] = np.array(values, dtype=np.int64)
        return name

    def vector(self, name: str, values: NDArray[np.float32]) -> str:
        """Add a vector, and return its name."""
        self.vectors[name] = values
        return name

    def reshape(self, x: str, name: str, *shape: int) -> str:
        """Give a value another shape."""
        return self.op("Reshape", [x, self.whole(f"{name}.shape", list(shape))], name)

    def capped(self, x: str, name: str, cap: float) -> str:
        """Compute cap * tanh(x / cap)."""
        most = self.vector(f"{name}.cap", np.array([cap], dtype=np.float32))
        inverse = self.vector(f"{name}.inverse", np.array([1.0 / cap], dtype=np.float32))
        small = self.op("Mul", [x, inverse], f"{name}.small")
        return self.op("Mul", [self.op("Tanh", [small], f"{name}.tanh"), most], name)


def cache_names(layer: int) -> tuple[str, str]:
    """Return the inputs that hold keys and values of a layer, [kv heads, S, d]."""
    return f"keys.{layer}", f"values.{layer}"


def new_names(layer: int) -> tuple[str, str]:
    """Return the outputs with keys and values of the pass, [kv heads, N, d]."""
    return f"keys_new.{layer}", f"values_new.{layer}"


def stream_values(graph: StaticGraph) -> set[str]:
    """Return the values that stay floats: the residual stream, and norms that are added to it."""
    found = {EMBEDDED}
    for node in graph.nodes:
        if node.op_type == "Add" and found & set(node.input):
            found.add(node.output[0])
    readers: dict[str, list[onnx.NodeProto]] = {}
    for node in graph.nodes:
        for name in node.input:
            readers.setdefault(name, []).append(node)
    for node in graph.nodes:
        added = readers.get(node.output[0], [])
        if node.op_type == "RMSNormalization" and all(one.output[0] in found for one in added) and added:
            found.add(node.output[0])
    return found


def added_values(graph: StaticGraph) -> list[str]:
    """Return the values of matrices that only the residual stream and its norms read."""
    stream = stream_values(graph)
    found = []
    for node in graph.nodes:
        if node.op_type == "Gemm":
            readers = [one for one in graph.nodes if node.output[0] in one.input]
            if readers and all(one.output[0] in stream for one in readers):
                found.append(node.output[0])
    return found
