"""The ops of ``model.onnx`` as plain data, for the engine without ONNX Runtime: ``cpu.json``.

``kernels/engine/web/cpu_program.h`` describes the form, and reads it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from edgedec.bundle.manifest import MODEL
from edgedec.core.errors import UnsupportedError
from edgedec.disk.files import storage_errors

CPU_PROGRAM = "cpu.json"
FORMAT = "edgedec-cpu"
VERSION = 1
_OPS = frozenset(
    (
        "QuantEmbedding",
        "RotaryTable",
        "RMSNorm",
        "QuantLinear",
        "GatedMLP",
        "GatedProduct",
        "TreeAttention",
        "ShortConv",
        "GatedDelta",
        "Gather",
        "HeadTopK",
    )
)
_LISTS = frozenset(("formats",))
"""Attributes that list words, which ONNX holds as one text."""
_NUMBERS = ("tokens", "length", "rows")
"""Inputs with a number for each row, of which a graph computes the first row that is wanted."""


def write_cpu_program(bundle: Path, file: Path) -> None:
    """Write the program of the bundle's model. Raises UnsupportedError for a graph with other ops."""
    graph = onnx.load(str(bundle / MODEL), load_external_data=False).graph
    with storage_errors(str(file)):
        file.write_text(json.dumps(cpu_program(graph), separators=(",", ":")), encoding="utf-8")


def cpu_program(graph: onnx.GraphProto) -> dict[str, Any]:
    """Return the program of a graph: its nodes in order, and where their tensors lie."""
    nodes = _Nodes(graph).program
    read = {name for node in nodes for name in node["in"]}
    tensors, constants = {}, {}
    for tensor in graph.initializer:
        if tensor.name not in read or tensor.name == "temperature":
            continue
        if tensor.external_data:
            place = {entry.key: entry.value for entry in tensor.external_data}
            tensors[tensor.name] = [int(place.get("offset", 0)), int(place["length"])]
        elif tensor.data_type == onnx.TensorProto.FLOAT:
            bits = onnx.numpy_helper.to_array(tensor).astype("<f4").view(np.uint32).ravel()
            constants[tensor.name] = bits.tolist()
    return {
        "format": FORMAT, "version": VERSION, "tensors": tensors, "constants": constants, "nodes": nodes,
    }  # fmt: skip


class _Nodes:
    """The nodes of a program.

    A program has no shapes: a row is as wide as its value. So a reshaped value is the value itself. The
    arithmetic that finds the first wanted row is left out, because the engine knows that row.
    """

    def __init__(self, graph: onnx.GraphProto) -> None:
        self.program: list[dict[str, Any]] = []
        self._sizes = {one.name: tuple(one.dims) for one in graph.initializer}
        self._caches = {one.name for one in graph.output}
        self._same: dict[str, str] = {}
        """Values by their other names."""
        self._parts: dict[str, dict[str, Any]] = {}
        """Nodes that take a part of a value. Each is placed where its part is first read."""
        self._numbers = set(_NUMBERS)
        for node in graph.node:
            self._read(node)

    def _read(self, node: onnx.NodeProto) -> None:
        inputs, out = list(node.input), node.output[0]
        values = {one.name: _attribute(one) for one in node.attribute}
        if node.op_type in _OPS:
            self._take(node.op_type, inputs, out, values)
        elif node.op_type == "Reshape":
            self._same[out] = self._same.get(inputs[0], inputs[0])
        elif node.op_type == "Split":
            for part, name in enumerate(node.output):
                place = {"part": part, "parts": len(node.output)}
                self._parts[name] = {"op": "Columns", "in": [self._same.get(inputs[0], inputs[0])], **place}
        elif node.op_type == "Constant" or self._numbers.issuperset(inputs):
            self._numbers.update(node.output)
        elif node.op_type == "Slice" and self._numbers.issuperset(inputs[1:]):
            self._take("FromFirst", inputs[:1], out, {})
        elif node.op_type == "Mul" and self._sizes.get(inputs[1]) == (1,):
            self._take("Scale", inputs, out, {})
        elif out not in self._caches:
            message = f"a browser's CPU cannot run the op {node.op_type}"
            raise UnsupportedError(message, hint="run the model on the CPU with Python")

    def _take(self, op: str, inputs: list[str], out: str, values: dict[str, Any]) -> None:
        if op == "Gather":
            inputs = [inputs[0], "rows"]  # the engine counts them from the first row that a value has
        if op == "RMSNorm":
            values["cols"] = self._sizes[inputs[1]][0]  # a reshaped row has several parts, each normed apart
        found = []
        for name in inputs:
            if name in self._parts:
                self.program.append({**self._parts.pop(name), "out": name})
            found.append(self._same.get(name, name))
        self.program.append({"op": op, "in": found, "out": out, **values})


def _attribute(attribute: onnx.AttributeProto) -> Any:
    value = onnx.helper.get_attribute_value(attribute)
    if isinstance(value, bytes):
        text = value.decode()
        return text.split(",") if attribute.name in _LISTS else text
    return list(value) if isinstance(value, list) else value
