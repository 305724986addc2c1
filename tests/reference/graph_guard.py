"""The checks of ``kernels/engine/model/graph_guard.h``, in Python."""

from __future__ import annotations

import math
from collections.abc import Iterator

from edgedec.backends.onnx.protobuf_wire import WireError, fields, packed
from edgedec.bundle.manifest import WEIGHTS

_MOST_DEPTH = 100

# Where tensors can be, by message and field number of onnx.proto3: the message that each such field holds.
_CHILDREN: dict[str, dict[int, str]] = {
    "model": {7: "graph", 20: "training", 25: "function"},
    "training": {1: "graph", 2: "graph"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "function": {7: "node", 11: "attribute"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
}
_DOMAINS = {"model": 8, "node": 7, "function": 10}
"""The field with a domain: of an opset that is imported (field 1 of that), of a node's op, of a function."""
_STANDARD = ("", "ai.onnx")
_DIMS, _DATA_TYPE, _EXTERNAL_DATA, _DATA_LOCATION = 1, 2, 13, 14
_SIZES = {1: 4, 2: 1, 3: 1, 4: 2, 5: 2, 6: 4, 7: 8, 9: 1, 10: 2, 11: 8, 12: 4, 13: 8, 16: 2}
"""Bytes of an element by TensorProto.DataType."""


def fault(graph: bytes, weights: int, *, standard: bool = False) -> str | None:
    """Return why a graph over so many bytes of weights is broken, as ``library.wrong_with_graph``."""
    try:
        _check_parts(memoryview(graph), weights, standard)
    except WireError as error:
        return str(error)
    return None


def _check_parts(data: memoryview, size: int, standard: bool) -> None:
    for kind, message in _parts("model", data, 0):
        if kind == "tensor":
            _check_tensor(message, size)
        elif standard and kind in _DOMAINS:
            _check_domain(kind, message)


def _parts(kind: str, message: memoryview, depth: int) -> Iterator[tuple[str, memoryview]]:
    """(kind, content) of this message and of all inside it."""
    yield kind, message
    if kind == "tensor":
        return
    if depth > _MOST_DEPTH:
        raise WireError("its graphs are nested too deeply")
    children = _CHILDREN[kind]
    for number, value in fields(message):
        if number in children and isinstance(value, memoryview):
            yield from _parts(children[number], value, depth + 1)


def _check_domain(kind: str, message: memoryview) -> None:
    for number, value in fields(message):
        if number == _DOMAINS[kind] and isinstance(value, memoryview):
            domain = value if kind != "model" else _first_text(value)
            if (name := str(domain, "utf-8", "replace")) not in _STANDARD:
                raise WireError(f"it has ops of the domain {name[:40]!r}")


def _first_text(message: memoryview) -> memoryview:
    found = [value for number, value in fields(message) if number == 1 and isinstance(value, memoryview)]
    return found[-1] if found else memoryview(b"")


def _check_tensor(message: memoryview, size: int) -> None:
    dims: list[int] = []
    entries: list[tuple[str, str]] = []
    data_type = location = 0
    for number, value in fields(message):
        if number == _DIMS:
            dims += [value] if isinstance(value, int) else packed(value)
        elif number == _DATA_TYPE and isinstance(value, int):
            data_type = value
        elif number == _DATA_LOCATION and isinstance(value, int):
            location = value
        elif number == _EXTERNAL_DATA and isinstance(value, memoryview):
            entries.append(_entry(value))
    if entries or location:
        _check_place(entries, math.prod(dims) * _SIZES.get(data_type, 0), size)


def _check_place(entries: list[tuple[str, str]], wanted: int, size: int) -> None:
    """A tensor of ``wanted`` bytes; 0 means that its type or shape is none that a weight has."""
    where = dict(entries)
    if len(where) != len(entries) or where.keys() != {"location", "offset", "length"}:
        raise WireError("a weight does not say where it is")
    if where["location"] != WEIGHTS:
        raise WireError(f"a weight is not in {WEIGHTS}")
    offset, length = _number(where["offset"]), _number(where["length"])
    if offset + length > size:
        raise WireError(f"a weight lies outside {WEIGHTS}")
    if length != wanted or not wanted:
        raise WireError("a weight has another size than its shape")


def _number(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 20):
        raise WireError("the place of a weight is not a number")
    return int(text)


def _entry(message: memoryview) -> tuple[str, str]:
    """Key and value of a StringStringEntryProto."""
    texts = {1: "", 2: ""}
    for number, value in fields(message):
        if number in texts and isinstance(value, memoryview):
            texts[number] = str(value, "utf-8", "replace")
    return texts[1], texts[2]
