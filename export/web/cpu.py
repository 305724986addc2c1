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
        "TreeAttention",
        "Gather",
        "HeadTopK",
    )
)
_LISTS = frozenset(("formats",))
"""Attributes that list words, which ONNX holds as one text."""


def write_cpu_program(bundle: Path, file: Path) -> None:
    """Write the program of the bundle's model. Raises UnsupportedError for a graph with other ops."""
    graph = onnx.load(str(bundle / MODEL), load_external_data=False).graph
    with storage_errors(str(file)):
        file.write_text(json.dumps(cpu_program(graph), separators=(",", ":")), encoding="utf-8")


def cpu_program(graph: onnx.GraphProto) -> dict[str, Any]:
    """Return the program of a graph: its nodes in order, and where their tensors lie."""
    nodes = [_node(node) for node in graph.node if "kv_new" not in node.output]
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


def _node(node: onnx.NodeProto) -> dict[str, Any]:
    if node.op_type not in _OPS:
        raise UnsupportedError(
            f"a browser's CPU cannot run the op {node.op_type}", hint="export the model again"
        )
    values = {one.name: _attribute(one) for one in node.attribute}
    return {"op": node.op_type, "in": list(node.input), "out": node.output[0], **values}


def _attribute(attribute: onnx.AttributeProto) -> Any:
    value = onnx.helper.get_attribute_value(attribute)
    if isinstance(value, bytes):
        text = value.decode()
        return text.split(",") if attribute.name in _LISTS else text
    return list(value) if isinstance(value, list) else value
