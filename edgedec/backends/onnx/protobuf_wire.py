"""Protobuf's wire format (protobuf.dev/programming-guides/encoding), as far as graphs need it.

Importing ``onnx`` would take longer than loading a model.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

Value = int | memoryview
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


class WireError(Exception):
    """Says why a graph cannot be read."""


def fields(message: memoryview) -> Iterator[tuple[int, Value]]:
    """Field numbers with their values: integers, or the bytes of anything longer."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        number, wire = key >> 3, key & 7
        if wire == _VARINT:
            value, at = _varint(message, at)
            yield number, value
            continue
        if wire == _BYTES:
            length, at = _varint(message, at)
        elif wire in (_FIXED64, _FIXED32):
            length = 8 if wire == _FIXED64 else 4
        else:
            raise WireError("it is no ONNX model")
        if length > len(message) - at:
            raise WireError("it is cut short")
        yield number, message[at : at + length]
        at += length


def grouped(message: memoryview) -> Mapping[int, list[Value]]:
    """Return the values of a message by the number of their field, which may have none.

    Raises WireError as ``fields``.
    """
    found = defaultdict[int, list[Value]](list)
    for number, value in fields(message):
        found[number].append(value)
    return found


def packed(message: memoryview) -> list[int]:
    """Numbers of a packed field."""
    values, at = [], 0
    while at < len(message):
        value, at = _varint(message, at)
        values.append(value)
    return values


def _varint(message: memoryview, at: int) -> tuple[int, int]:
    """(an unsigned number of at most 64 bits, where it ends)."""
    if at < len(message) and message[at] < 0x80:  # almost all are
        return message[at], at + 1
    value = 0
    for shift in range(0, 70, 7):
        if at == len(message):
            raise WireError("it is cut short")
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & (2**64 - 1), at
    raise WireError("it is no ONNX model")
