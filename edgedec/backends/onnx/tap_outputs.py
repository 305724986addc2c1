"""Further outputs of a graph, as bytes that are appended to its file: the outputs of layers as hidden states.

Protobuf reads a message that comes twice as one, with the entries of both. So a graph gets outputs without
being decoded, which would take longer than loading it.
"""

from __future__ import annotations

from collections.abc import Iterable

from edgedec.backends.onnx.protobuf_wire import fields
from edgedec.bundle.exits import out

_GRAPH, _OUTPUT = 7, 12
"""Fields of ModelProto and GraphProto."""
_FLOAT = 1


def with_outputs(model: bytes, layers: Iterable[int], hidden: int) -> bytes:
    """Return ``model`` with the outputs f32[tokens, hidden] of those ``layers`` that its graph computes.

    Raises WireError for bytes that are no model.
    """
    there = _outputs(memoryview(model))
    found = (layer for layer in layers if _text(out(layer)) in model and out(layer) not in there)
    outputs = b"".join(_message(_OUTPUT, _value_info(layer, hidden)) for layer in found)
    return model + _message(_GRAPH, outputs) if outputs else model


def _outputs(model: memoryview) -> set[str]:
    """Return the names of the outputs that it has."""
    graphs = [value for number, value in fields(model) if number == _GRAPH and isinstance(value, memoryview)]
    infos = (value for graph in graphs for number, value in fields(graph) if number == _OUTPUT)
    names = (dict(fields(info)).get(1) for info in infos if isinstance(info, memoryview))
    return {str(name, "utf-8", "replace") for name in names if isinstance(name, memoryview)}


def _text(name: str) -> bytes:
    """Return a name as it lies in a message: its length comes before it."""
    return _message(1, name.encode())[1:]


def _value_info(layer: int, hidden: int) -> bytes:
    rows, columns = _message(2, f"tokens.{layer}".encode()), _number(1, hidden)
    shape = _message(1, rows) + _message(1, columns)
    tensor = _number(1, _FLOAT) + _message(2, shape)
    return _message(1, out(layer).encode()) + _message(2, _message(1, tensor))


def _message(field: int, data: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(data)) + data


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _varint(value: int) -> bytes:
    found = b""
    while value >= 0x80:
        found += bytes([value & 0x7F | 0x80])
        value >>= 7
    return found + bytes([value])
