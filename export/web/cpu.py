"""The ops of a graph as plain data, for the engine without ONNX Runtime: ``cpu.json``.

``kernels/engine/web/cpu_program.h`` describes the form, and reads it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from edgedec.bundle.drafter_manifest import ASSISTANT, HEAD, MTP, DrafterManifest
from edgedec.bundle.exits import EXITS
from edgedec.bundle.manifest import DRAFTING, MODEL
from edgedec.bundle.table_facts import TableFacts, sizes_of
from edgedec.core.errors import UnsupportedError
from edgedec.disk.files import storage_errors
from edgedec.disk.home import ARTIFACTS

CPU_PROGRAM = "cpu.json"
PROGRAMS = "cpu"
"""Folder in a bundle with those of its drafters: ``KIND.json``. ``KIND.i32`` has the tokens, little-endian
int32, that the rows of a head stand for where they are not the tokens."""
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
        "Experts",
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
_CACHES = ("kv_cache", "kv_window")
_TAPS, _STATES = "taps", "states"
"""Inputs of a drafter's graph."""
_GRAPHS = {HEAD: "head.onnx", MTP: "mtp.onnx", ASSISTANT: "assistant.onnx"}
_TABLES = ("table", "head")
"""Inputs of a drafter's graph that lie in the target's weights."""


def write_cpu_program(bundle: Path, file: Path) -> None:
    """Write the program of the bundle's model. Raises UnsupportedError for a graph with other ops."""
    program = cpu_program(_graph(bundle / MODEL))
    if (bundle / DRAFTING).is_file():
        stated = onnx.load(str(bundle / DRAFTING), load_external_data=False).metadata_props
        exits = next((one.value for one in stated if one.key == EXITS), "")
        program["exits"] = [int(exit) for exit in exits.split(",") if exit]
    _write(program, file)


def write_drafter_programs(bundle: Path) -> None:
    """Write those of the drafters that the bundle carries. Raises UnsupportedError for other ops."""
    for kind in _GRAPHS:
        folder = bundle / ARTIFACTS / kind
        if not folder.is_dir():
            continue
        with storage_errors(str(bundle)):
            (bundle / PROGRAMS).mkdir(exist_ok=True)
        _write(drafter_program(kind, folder), bundle / PROGRAMS / f"{kind}.json")
        if (ids := _ids_of(_graph(folder / _GRAPHS[kind]))) is not None:
            with storage_errors(str(bundle)):
                (bundle / PROGRAMS / f"{kind}.i32").write_bytes(ids.astype("<i4").tobytes())


def drafter_program(kind: str, folder: Path) -> dict[str, Any]:
    """Return the program of a drafter, and where the target's tables lie that it reads."""
    graph, facts = _graph(folder / _GRAPHS[kind]), DrafterManifest.load(folder, verify=False).facts
    shared = {}
    for name in {one.name for one in graph.input}.intersection(_TABLES):
        stated = {part: facts.get(f"{name}_{part}") for part in ("offset", "tiles", "tile_bytes")}
        place = sizes_of(TableFacts, stated, f"the drafter {kind}")
        shared[name] = [place.offset, place.nbytes]
    return {**cpu_program(graph), "shared": shared}


def _graph(file: Path) -> onnx.GraphProto:
    return onnx.load(str(file), load_external_data=False).graph


def _write(program: dict[str, Any], file: Path) -> None:
    with storage_errors(str(file)):
        file.write_text(json.dumps(program, separators=(",", ":")), encoding="utf-8", newline="\n")


def _ids_of(graph: onnx.GraphProto) -> NDArray[Any] | None:
    """Return the tokens that rows of the head stand for; None where they are the rows themselves."""
    made = {node.output[0]: node for node in graph.node}
    found = made.get("ids")
    if found is None or found.op_type != "Gather":
        return None
    return onnx.numpy_helper.to_array(made[found.input[0]].attribute[0].t)


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
    arithmetic that finds the first wanted row is left out, because the engine knows that row; so is what
    bodies in standard ops read of a cache.
    """

    def __init__(self, graph: onnx.GraphProto) -> None:
        self.program: list[dict[str, Any]] = []
        self._sizes = {one.name: tuple(one.dims) for one in graph.initializer}
        self._outputs = {one.name for one in graph.output}
        self._same: dict[str, str] = {}
        """Values by their other names."""
        self._parts: dict[str, dict[str, Any]] = {}
        """Nodes that take a part of a value. Each is placed where its part is first read."""
        self._numbers = set(_NUMBERS)
        self._constants: dict[str, Any] = {}
        self._of_caches = set(_CACHES)
        for value in graph.input:
            if value.name == _TAPS:
                width = value.type.tensor_type.shape.dim[1].dim_value
                self.program.append({"op": "Taps", "in": [], "out": _TAPS, "cols": width})
        for node in graph.node:
            self._read(node)

    def _read(self, node: onnx.NodeProto) -> None:
        inputs, out = list(node.input), node.output[0]
        values = {one.name: _attribute(one) for one in node.attribute}
        if self._is_left_out(node):
            return
        if node.op_type in _OPS:
            self._take(node.op_type, inputs, out, values)
        elif node.op_type == "Reshape":
            self._same[out] = self._same.get(inputs[0], inputs[0])
        elif node.op_type == "Split":
            for part, name in enumerate(node.output):
                place = {"part": part, "parts": len(node.output)}
                self._parts[name] = {"op": "Columns", "in": [self._same.get(inputs[0], inputs[0])], **place}
        elif node.op_type == "Slice" and self._numbers.issuperset(inputs[1:]):
            self._take("FromFirst", inputs[:1], out, {})
        elif node.op_type == "Mul" and self._sizes.get(inputs[1]) == (1,):
            self._take("Scale", inputs, out, {})
        elif node.op_type == "Add":
            self._take("Add", inputs, out, {})
        elif node.op_type == "Concat" and values["axis"] == 1:
            self._beside(inputs, out)
        elif node.op_type == "Concat" and inputs[1:] == [_STATES]:
            self._take("WithStates", inputs[:1], out, {})
        elif node.op_type == "TopK":
            (chosen,) = np.ravel(self._constants[inputs[1]])
            self._take("Nearest", inputs[:1], out, {"chosen": int(chosen)})
            self._numbers.update(node.output)
        elif out not in self._outputs:
            message = f"a browser's CPU cannot run the op {node.op_type}"
            raise UnsupportedError(message, hint="run the model on the CPU with Python")

    def _is_left_out(self, node: onnx.NodeProto) -> bool:
        """Note what a node computes that no value of the program depends on; say whether it does."""
        inputs, constant = set(node.input), node.op_type == "Constant"
        if constant:
            self._constants[node.output[0]] = _constant(node)
        of_caches = bool(inputs) and node.input[0] in self._of_caches
        if of_caches and node.op_type == "Gather":
            self._of_caches.update(node.output)
        elif constant or of_caches or (inputs <= self._numbers and node.op_type not in _OPS):
            self._numbers.update(node.output)
        else:
            return node.op_type == "Gather" and node.output[0] in self._outputs
        return True

    def _beside(self, inputs: Sequence[str], out: str) -> None:
        """Put values side by side, two at a time."""
        left = inputs[0]
        for at, right in enumerate(inputs[1:], 1):
            name = out if at == len(inputs) - 1 else f"{out}.{at}"
            self._take("Beside", [left, right], name, {})
            left = name

    def _take(self, op: str, inputs: Sequence[str], out: str, values: dict[str, Any]) -> None:
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


def _constant(node: onnx.NodeProto) -> Any:
    value = onnx.helper.get_attribute_value(node.attribute[0])
    return onnx.numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value
