"""Lowers the graph of a decoder to one pass of fixed length in standard ops.

A pass takes N tokens over a cache of S slots. The embedding, sines and cosines, the mask and the slots of the
tokens are inputs; rows of the cache that the pass writes are outputs. Every node does the same for every row,
so what a row computes does not depend on its place in the pass.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnx
from onnx import TensorProto

from edgedec.core.errors import UnsupportedError
from edgedec.export.model import ExportModel, PackedWeight, VectorWeight, attributes
from edgedec.export.npu.heads import Heads
from edgedec.export.npu.static_graph import EMBEDDED, LOGITS, Matrix, StaticGraph


def lower(model: ExportModel, tokens: int, slots: int) -> StaticGraph:
    """Return the pass over ``tokens`` tokens and ``slots`` slots of the unfused graph ``model``.

    Raises UnsupportedError for a graph with an op that has no such form.
    """
    lowering = Lowering(model, StaticGraph(tokens, slots))
    for node in model.nodes:
        lowering.step(node)
    return lowering.graph


class Lowering:
    def __init__(self, model: ExportModel, graph: StaticGraph) -> None:
        self.model, self.graph = model, graph
        self.parts: dict[str, list[str]] = {}
        """Values that were concatenated -> their parts."""
        self.same: dict[str, str] = {}
        """Other names of values."""

    def step(self, node: onnx.NodeProto) -> None:
        """Add the nodes that compute the output of ``node``."""
        make: Callable[[onnx.NodeProto, dict[str, Any]], None] | None = getattr(
            self, f"_{node.op_type.lower()}", None
        )
        if make is None:
            raise UnsupportedError(f"{node.op_type} has no form for an NPU")
        make(node, attributes(node))

    # One method for each op of the graph that ``export.graph`` builds.

    def _quantembedding(self, node: onnx.NodeProto, attrs: dict[str, Any]) -> None:
        hidden = self._packed(node.input[1]).cols
        assert node.output[0] == EMBEDDED
        self.graph.table, self.graph.packed_table = node.input[1], self._packed(node.input[1])
        self.graph.embedding_factor = float(attrs["scale"])
        self.graph.take(EMBEDDED, TensorProto.FLOAT, [self.graph.tokens, hidden])

    def _rotarytable(self, node: onnx.NodeProto, _attrs: dict[str, Any]) -> None:
        self.graph.rotary[node.output[0]] = node.input[1]
        self.vector(node.input[1])

    def _rmsnorm(self, node: onnx.NodeProto, attrs: dict[str, Any]) -> None:
        self.norm(
            self.same.get(node.input[0], node.input[0]), node.input[1], node.output[0], attrs["epsilon"]
        )

    def norm(self, x: str, weight: str, name: str, epsilon: float) -> str:
        """Add a norm, and return its name."""
        inputs = [x, self.vector(weight)]
        return self.graph.op("RMSNormalization", inputs, name, axis=-1, epsilon=epsilon)

    def vector(self, name: str) -> str:
        """Add a vector of the model, and return its name."""
        weight = self.model.weights[name]
        assert isinstance(weight, VectorWeight)
        return self.graph.vector(name, weight.values)

    def _quantlinear(self, node: onnx.NodeProto, _attrs: dict[str, Any]) -> None:
        x, bias, _, weight = node.input
        self.graph.matrices[weight] = Matrix(self._packed(weight))
        inputs = [x, weight, *([self.vector(bias)] if bias else [])]
        self.graph.op("Gemm", inputs, node.output[0], transB=1)

    def _concat(self, node: onnx.NodeProto, _attrs: dict[str, Any]) -> None:
        self.parts[node.output[0]] = list(node.input)

    def _gather(self, node: onnx.NodeProto, _attrs: dict[str, Any]) -> None:
        """Every row goes through the head: the rows taken are all."""
        self.same[node.output[0]] = node.input[0]

    def _plain(self, node: onnx.NodeProto, _attrs: dict[str, Any]) -> None:
        if node.input[0] in self.graph.rotary:
            self.graph.rotary[node.output[0]] = self.graph.rotary[node.input[0]]
            self.graph.factors[node.output[0]] = self.vector(node.input[1])
            return
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        self.graph.nodes.append(copy)

    _add = _mul = _sigmoid = _gelu = _plain

    def _headtopk(self, node: onnx.NodeProto, attrs: dict[str, Any]) -> None:
        x, weight = node.input[:2]
        self.graph.matrices[weight] = Matrix(self._packed(weight))
        cap = float(attrs.get("softcap", 0.0))
        logits = self.graph.op("Gemm", [x, weight], f"{LOGITS}.plain" if cap else LOGITS, transB=1)
        if cap:
            self.graph.capped(logits, LOGITS, cap)
        self.graph.outputs.append(LOGITS)

    def _treeattention(self, node: onnx.NodeProto, attrs: dict[str, Any]) -> None:
        Heads(self.graph, node, attrs, self.parts.get(node.input[0]), self.norm).build()
        self.graph.layers += 1
        self.graph.group = attrs["num_heads"] // attrs["num_kv_heads"]
        self.graph.window = max(self.graph.window, attrs["window"])

    def _packed(self, name: str) -> PackedWeight:
        weight = self.model.weights[name]
        assert isinstance(weight, PackedWeight)
        return weight
