"""The nodes and weights of ``model.onnx``, read without ``onnx`` or ONNX Runtime."""

from __future__ import annotations

import struct
from dataclasses import field
from pathlib import Path

from edgedec.backends.onnx.graph_guard import check_graph
from edgedec.backends.onnx.protobuf_wire import Value, WireError, fields, packed
from edgedec.bundle.manifest import MODEL
from edgedec.core.errors import BadFileError
from edgedec.core.quick_dataclass import dataclass

Attribute = int | float | str | tuple[int, ...]
_GRAPH, _METADATA = 7, 14
"""Fields of ModelProto."""
_FLOAT, _INT, _STRING, _INTS = 1, 2, 3, 7
"""AttributeProto.type."""


@dataclass(frozen=True, slots=True)
class OpNode:
    """One op of a graph. A missing optional input is named ""."""

    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, Attribute]

    def integer(self, name: str, default: int = 0) -> int:
        value = self.attributes.get(name, default)
        return value if isinstance(value, int) else default

    def real(self, name: str, default: float = 0.0) -> float:
        value = self.attributes.get(name, default)
        return float(value) if isinstance(value, int | float) else default

    def text(self, name: str) -> str:
        value = self.attributes.get(name, "")
        return value if isinstance(value, str) else ""

    def integers(self, name: str) -> tuple[int, ...]:
        value = self.attributes.get(name, ())
        return value if isinstance(value, tuple) else ()

    def input(self, number: int) -> str:
        """The name of an input; "" where it is missing."""
        return self.inputs[number] if number < len(self.inputs) else ""


@dataclass(frozen=True, slots=True)
class GraphTensor:
    """A weight: bytes of ``weights.bin``, or ``data`` within the graph."""

    dims: tuple[int, ...]
    offset: int = 0
    nbytes: int = 0
    data: bytes | None = None


@dataclass(frozen=True, slots=True)
class OpGraph:
    """A graph: its ops in the order in which they run."""

    nodes: tuple[OpNode, ...] = ()
    tensors: dict[str, GraphTensor] = field(default_factory=dict)


def read_graph(bundle: Path) -> OpGraph:
    """Read the graph of ``bundle``. Raises BadFileError where it is broken or its weights are not there."""
    check_graph(bundle)
    try:
        data = memoryview((bundle / MODEL).read_bytes())
        (graph,) = (value for number, value in fields(data) if number == _GRAPH)
        return _graph(_message(graph))
    except (WireError, ValueError, OSError) as error:
        raise BadFileError(
            f"{MODEL} of the bundle is broken: {error}", hint="pull or export the model again"
        ) from error


def read_metadata(bundle: Path, graph: str) -> dict[str, str]:
    """Read the facts that the file ``graph`` of ``bundle`` states. Raises BadFileError as ``read_graph``."""
    check_graph(bundle, graph)
    try:
        data = memoryview((bundle / graph).read_bytes())
        pairs = [dict(fields(_message(value))) for number, value in fields(data) if number == _METADATA]
        return {_text(pair[1]): _text(pair[2]) for pair in pairs if {1, 2} <= pair.keys()}
    except (WireError, ValueError, OSError) as error:
        raise BadFileError(
            f"{graph} of the bundle is broken: {error}", hint="pull or export the model again"
        ) from error


def _graph(message: memoryview) -> OpGraph:
    nodes, tensors = [], {}
    for number, value in fields(message):
        if number == 1:
            nodes.append(_node(_message(value)))
        elif number == 5:
            name, tensor = _tensor(_message(value))
            tensors[name] = tensor
    return OpGraph(tuple(nodes), tensors)


def _node(message: memoryview) -> OpNode:
    inputs, outputs, attributes, op = [], [], {}, ""
    for number, value in fields(message):
        if number == 1:
            inputs.append(_text(value))
        elif number == 2:
            outputs.append(_text(value))
        elif number == 4:
            op = _text(value)
        elif number == 5:
            name, attribute = _attribute(_message(value))
            if attribute is not None:
                attributes[name] = attribute
    return OpNode(op, tuple(inputs), tuple(outputs), attributes)


def _attribute(message: memoryview) -> tuple[str, Attribute | None]:
    name, kind, text = "", 0, ""
    real, integer = 0.0, 0
    integers: list[int] = []
    for number, value in fields(message):
        if number == 1:
            name = _text(value)
        elif number == 2:
            (real,) = struct.unpack("<f", _message(value))
        elif number == 3:
            integer = _signed(value)
        elif number == 4:
            text = _text(value)
        elif number == 8:
            integers += [_signed(one) for one in ([value] if isinstance(value, int) else packed(value))]
        elif number == 20 and isinstance(value, int):
            kind = value
    found: dict[int, Attribute] = {_FLOAT: real, _INT: integer, _STRING: text, _INTS: tuple(integers)}
    return name, found.get(kind)


def _tensor(message: memoryview) -> tuple[str, GraphTensor]:
    dims: list[int] = []
    name, data, place = "", b"", {}
    for number, value in fields(message):
        if number == 1:
            dims += [value] if isinstance(value, int) else packed(value)
        elif number == 8:
            name = _text(value)
        elif number == 9:
            data = bytes(_message(value))
        elif number == 13:
            pair = dict(fields(_message(value)))
            place[_text(pair[1])] = _text(pair[2])
    if place:
        return name, GraphTensor(tuple(dims), int(place["offset"]), int(place["length"]))
    return name, GraphTensor(tuple(dims), nbytes=len(data), data=data)


def _message(value: Value) -> memoryview:
    if isinstance(value, int):
        raise WireError("a number stands in place of a message")
    return value


def _text(value: Value) -> str:
    return str(_message(value), "utf-8", "replace")


def _signed(value: Value) -> int:
    if not isinstance(value, int):
        raise WireError("a message stands in place of a number")
    return value - (1 << 64) if value >> 63 else value
