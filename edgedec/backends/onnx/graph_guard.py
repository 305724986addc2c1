"""Checks of a bundle's graph before ONNX Runtime opens it.

Its weights must lie in the bundle, whole. All ops of a graph without EdgeDec's kernels must be standard ones.

ONNX Runtime checks much of this itself, each version another part of it, and a weight that is mapped from
beyond the end of a file kills the process at its first use.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

from edgedec.backends.onnx.wire import WireError, fields, packed
from edgedec.bundle.manifest import MODEL, WEIGHTS
from edgedec.core.errors import BadFileError

_AGAIN = "pull or export the model again"
_MOST_BYTES = 64 << 20
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


def check_graph(bundle: Path, graph: str = MODEL, *, standard: bool = False) -> bytes:
    """Return the file ``graph``. Raises BadFileError unless its external tensors lie inside ``weights.bin``.

    Their bytes have to end before that file does, and have to be as many as type and shape take. With
    ``standard``, no op may be of another domain than ONNX's own: ONNX Runtime has ops that read files.
    """
    try:
        with (bundle / graph).open("rb") as stream:
            data = stream.read(_MOST_BYTES + 1)
        size = (bundle / WEIGHTS).stat().st_size
    except OSError as error:
        raise _refused(graph, f"it cannot be read ({error.strerror})") from error
    if len(data) > _MOST_BYTES:
        raise _refused(graph, f"it is larger than {_MOST_BYTES} bytes")
    try:
        _check_parts(memoryview(data), size, standard)
    except WireError as error:
        raise _refused(graph, str(error)) from error
    return data


def other_model(graph: str) -> BadFileError:
    """Return the error of a graph that is not the one of the manifest's model."""
    return BadFileError(f"{graph} of the bundle is not the model that its manifest describes", hint=_AGAIN)


def _refused(graph: str, why: str) -> BadFileError:
    return BadFileError(f"{graph} of the bundle is broken: {why}", hint=_AGAIN)


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
