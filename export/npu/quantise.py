"""Quantises a static graph: values between ops are integers, by pairs of Quantize and Dequantize.

The sums of the residual stream stay floats, and so do the norms that read them: single numbers of it are a
thousand times larger than the others, which no 16 bits hold. Additions to it are quantised by channel.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from edgedec.bundle.affine import Affine
from edgedec.bundle.manifest import WEIGHTS
from edgedec.core.quick_dataclass import dataclass
from edgedec.export.npu.calibrate import IR_VERSION, OPSET, Ranges
from edgedec.export.npu.plan import Scheme
from edgedec.export.npu.scheme import MARGIN, TYPES, UNIT, affine_over
from edgedec.export.npu.static_graph import (
    EMBEDDED,
    LOCAL_MASK,
    LOGITS,
    MASK,
    StaticGraph,
    added_values,
    cache_names,
    new_names,
    stream_values,
)
from edgedec.export.npu.weights import StoredMatrix

_MOVES = ("Reshape", "Transpose", "Concat", "Split", "ScatterND")
"""Ops whose results are numbers of their inputs."""
_UNIT = ("Softmax", "Sigmoid")
_LOGITS_MARGIN = 0.5
"""As ``MARGIN``: logits at the end of their range would all be the same."""
_SPARE = 24.0
"""A hidden score is at least so far below every other: its weight is zero in 16 bits."""


@dataclass(slots=True)
class QuantisedGraph:
    """The graph, and the formats of its inputs and outputs by name; those that it lacks are as they stand."""

    model: onnx.ModelProto
    formats: dict[str, Affine] = field(default_factory=dict)


def quantise(
    graph: StaticGraph, ranges: Ranges, scheme: Scheme, matrices: Mapping[str, StoredMatrix]
) -> QuantisedGraph:
    """Return ``graph`` in QDQ form; its matrices are ``matrices``, in the bundle's file of weights."""
    return _Quantising(graph, ranges, scheme, matrices).build()


class _Quantising:
    def __init__(
        self, graph: StaticGraph, ranges: Ranges, scheme: Scheme, matrices: Mapping[str, StoredMatrix]
    ) -> None:
        self.graph, self.ranges, self.scheme = graph, ranges, scheme
        self.matrices = dict(matrices)
        self.growth = {name: _growth(ranges.channels[name]) for name in added_values(graph)}
        """Values that are added to the stream -> factors f32[C] that their matrices are divided by."""
        for node in graph.nodes:
            if node.output[0] in self.growth:
                old = self.matrices[node.input[1]]
                scale = (old.scale / self.growth[node.output[0]]).astype(np.float32)
                self.matrices[node.input[1]] = replace(old, scale=scale)
        self.nodes: list[onnx.NodeProto] = []
        self.stored: dict[str, onnx.TensorProto] = {}
        self.formats: dict[str, Affine] = {}
        self.names: dict[str, str] = {}
        """Value -> the name under which nodes read its floats."""
        self.stream = stream_values(graph)
        self.cached = {
            new: name
            for at in range(graph.layers)
            for new, name in zip(new_names(at), cache_names(at), strict=True)
        }
        """Output with rows -> input with the cache that they go to."""

    def build(self) -> QuantisedGraph:
        """Quantise everything."""
        inputs = [self.input(name, kind, shape) for name, (kind, shape) in self.graph.inputs.items()]
        for node in self.graph.nodes:
            self.step(node)
        outputs = [
            helper.make_tensor_value_info(name, TYPES[self.formats[name].bits], None)
            for name in self.graph.outputs
        ]
        made = helper.make_model(
            helper.make_graph(self.nodes, "pass", inputs, outputs, list(self.stored.values())),
            opset_imports=[helper.make_opsetid("", OPSET)],
            ir_version=IR_VERSION,
            producer_name="edgedec",
        )
        known = {*self.graph.inputs, *self.graph.outputs}
        return QuantisedGraph(made, {name: one for name, one in self.formats.items() if name in known})

    def input(self, name: str, kind: int, shape: list[int]) -> onnx.ValueInfoProto:
        if kind != TensorProto.FLOAT or name == EMBEDDED:
            self.names[name] = name
            return helper.make_tensor_value_info(name, kind, shape)
        chosen = self.formats[name] = self.input_format(name)
        self.names[name] = self.dequantised(name, name, chosen)
        return helper.make_tensor_value_info(name, TYPES[chosen.bits], shape)

    def input_format(self, name: str) -> Affine:
        if name in (MASK, LOCAL_MASK):
            return affine_over(-self.hidden(), 0.0, self.scheme.values, 0.0)
        if name.endswith((".cos", ".sin")):
            most = max(abs(edge) for edge in self.ranges.edges[name])
            return affine_over(-most, most, self.scheme.values, 0.0)
        return affine_over(*self.ranges.edges[f"{name}.all"], self.scheme.cache)

    def hidden(self) -> float:
        """The number that takes a score below all others of any layer."""
        widths = [
            high - low
            for name, (low, high) in self.ranges.edges.items()
            if name.endswith((".scores", ".capped"))
        ]
        return 1.2 * max(widths) + _SPARE

    def step(self, node: onnx.NodeProto) -> None:
        """Add a node that reads floats of integers, and make integers of its results."""
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        for at, name in enumerate(node.input):
            copy.input[at] = self.read(name, node)
        self.nodes.append(copy)
        for at, name in enumerate(node.output):
            if name in self.stream:
                self.names[name] = name
                continue
            copy.output[at] = source = f"{name}/plain"
            chosen = self.format(node, name)
            if name in self.cached and chosen != self.formats[self.cached[name]]:
                self.quantised(f"{name}/wide", source, chosen)
                source, chosen = self.names[f"{name}/wide"], self.formats[self.cached[name]]
            self.quantised(name, source, chosen)
        if node.op_type == "Gemm" and node.output[0] in self.growth:
            name = node.output[0]
            factor = self.store(f"{name}/growth", self.growth[name])
            self.nodes.append(
                helper.make_node("Mul", [self.names[name], factor], [f"{name}/grown"], f"{name}/grown")
            )
            self.names[name] = f"{name}/grown"

    def read(self, name: str, node: onnx.NodeProto) -> str:
        """Return the name under which ``node`` reads a value."""
        if name in self.names:
            return self.names[name]
        if name in self.matrices:
            self.names[name] = self.matrix(name)
        elif name in self.graph.integers:
            self.names[name] = self.store(name, self.graph.integers[name])
        elif node.op_type == "RMSNormalization":
            self.names[name] = self.store(name, self.graph.vectors[name])
        elif node.op_type == "Gemm":
            self.names[name] = self.bias(name, node)
        else:
            values = self.graph.vectors[name]
            chosen = affine_over(float(values.min()), float(values.max()), self.scheme.values, 0.0)
            integers = self.store(f"{name}/q", chosen.quantised(values))
            self.names[name] = self.dequantised(name, integers, chosen)
        return self.names[name]

    def format(self, node: onnx.NodeProto, name: str) -> Affine:
        if node.op_type in _MOVES:
            return self.formats[node.input[0]]
        if node.op_type in _UNIT:
            return UNIT[self.scheme.values]
        low, high = self.ranges.edges[name]
        if name.endswith(".masked"):
            low, high = self.ranges.edges[node.input[0]]
            return affine_over(low - _SPARE, high, self.scheme.values, 0.0)
        if name in self.growth:
            return affine_over(-1.0, 1.0, self.scheme.values, 0.0)
        return affine_over(low, high, self.scheme.values, _LOGITS_MARGIN if name == LOGITS else MARGIN)

    def quantised(self, name: str, source: str, chosen: Affine) -> None:
        """Make integers, named ``name``, of the floats ``source``, and floats of them again."""
        self.formats[name] = chosen
        self.nodes.append(
            helper.make_node("QuantizeLinear", [source, *self.parameters(chosen)], [name], f"{name}/quantise")
        )
        self.names[name] = self.dequantised(name, name, chosen)

    def dequantised(self, name: str, integers: str, chosen: Affine) -> str:
        floats = f"{name}/floats"
        self.nodes.append(
            helper.make_node("DequantizeLinear", [integers, *self.parameters(chosen)], [floats], floats)
        )
        return floats

    def parameters(self, chosen: Affine) -> tuple[str, str]:
        name = f"{chosen.bits}/{chosen.scale.hex()}/{chosen.zero}"
        scale = self.store(f"scale/{name}", np.array(chosen.scale, dtype=np.float32))
        return scale, self.store(f"zero/{name}", np.array(chosen.zero, dtype=chosen.dtype))

    def matrix(self, name: str) -> str:
        one = self.matrices[name]
        tensor = TensorProto(name=name, data_type=TensorProto.INT8, dims=one.shape)
        tensor.data_location = TensorProto.EXTERNAL
        place = {"location": WEIGHTS, "offset": str(one.offset), "length": str(one.nbytes)}
        for key, value in place.items():
            tensor.external_data.add(key=key, value=value)
        self.stored[name] = tensor
        inputs = [
            name,
            self.store(f"{name}/scale", one.scale),
            # Without zero points some runtimes read integers wrongly, and say nothing.
            self.store(f"{name}/zeros", np.zeros(one.shape[0], dtype=np.int8)),
        ]
        floats = f"{name}/floats"
        self.nodes.append(helper.make_node("DequantizeLinear", inputs, [floats], floats, axis=0))
        return floats

    def bias(self, name: str, node: onnx.NodeProto) -> str:
        """Return a bias as integers in the steps of the sums of products."""
        steps = self.matrices[node.input[1]].scale * np.float32(self.formats[node.input[0]].scale)
        values = self.graph.vectors[name] / self.growth.get(node.output[0], np.float32(1))
        integers = np.clip(np.rint(values / steps), -(2**31) + 1, 2**31 - 1).astype(np.int32)
        inputs = [
            self.store(f"{name}/q", integers),
            self.store(f"{name}/scale", steps),
            self.store(f"{name}/zeros", np.zeros_like(integers)),
        ]
        floats = f"{name}/floats"
        self.nodes.append(helper.make_node("DequantizeLinear", inputs, [floats], floats, axis=0))
        return floats

    def store(self, name: str, values: NDArray[Any]) -> str:
        self.stored[name] = numpy_helper.from_array(values, name)
        return name


def _growth(channels: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the factors that leave numbers from -1 to 1 in every channel."""
    least = max(float(channels.max()) * 1e-4, 1e-6)
    return (np.maximum(channels, np.float32(least)) * np.float32(1 + 2 * MARGIN)).astype(np.float32)
