"""The nodes and weights of ``model.onnx``, read without ``onnx`` or ONNX Runtime."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import field
from pathlib import Path

from edgedec.backends.onnx.graph_guard import check_graph
from edgedec.backends.onnx.protobuf_wire import Value, WireError, fields, grouped, packed
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
    parts = grouped(message)
    nodes = tuple(_node(_message(one)) for one in parts[1])
    return OpGraph(nodes, dict(_tensor(_message(one)) for one in parts[5]))


def _node(message: memoryview) -> OpNode:
    parts = grouped(message)
    inputs, outputs, ops = (tuple(map(_text, parts[number])) for number in (1, 2, 4))
    found = (_attribute(_message(one)) for one in parts[5])
    attributes = {name: value for name, value in found if value is not None}
    return OpNode("".join(ops[-1:]), inputs, outputs, attributes)


def _attribute(message: memoryview) -> tuple[str, Attribute | None]:
    """Return name and value; None for a value of a kind that no op of EdgeDec's has."""
    parts = grouped(message)
    name, kind = "".join(map(_text, parts[1][-1:])), (parts[20] or [0])[-1]
    if kind == _FLOAT:
        return name, next((_real(one) for one in parts[2][-1:]), 0.0)
    if kind == _INT:
        return name, next((_signed(one) for one in parts[3][-1:]), 0)
    if kind == _STRING:
        return name, "".join(map(_text, parts[4][-1:]))
    return name, tuple(map(_signed, _numbers(parts[8]))) if kind == _INTS else None


def _tensor(message: memoryview) -> tuple[str, GraphTensor]:
    parts = grouped(message)
    name, dims = "".join(map(_text, parts[8][-1:])), tuple(_numbers(parts[1]))
    pairs = [dict(fields(_message(one))) for one in parts[13]]
    if place := {_text(pair[1]): _text(pair[2]) for pair in pairs}:
        return name, GraphTensor(dims, int(place["offset"]), int(place["length"]))
    data = b"".join(bytes(_message(one)) for one in parts[9][-1:])
    return name, GraphTensor(dims, nbytes=len(data), data=data)


def _numbers(values: Iterable[Value]) -> Iterator[int]:
    """Yield repeated numbers, each of which may stand alone or be packed with others."""
    for value in values:
        yield from [value] if isinstance(value, int) else packed(value)


def _real(value: Value) -> float:
    return float(struct.unpack("<f", _message(value))[0])


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
