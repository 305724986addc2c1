"""Damage to GGUF files at the fields a reader has to believe: counts, lengths, types, shapes, offsets."""

from __future__ import annotations

import random
import struct
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache

from tests.fuzz.mutate import integer, mutate_bytes

_STRING, _ARRAY = 8, 9
_SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
_TYPES = (*range(25), 29, 30, 31, 34, 35, 39, 40, 255, 2**31, 2**32 - 1)
_FLOATS = (float("nan"), float("inf"), -float("inf"), -1.0, 0.0, -0.0, 1e-45, 3e38)


@dataclass(frozen=True, slots=True)
class Field:
    """``size`` bytes at ``at``; ``kind`` is count, length, type, dim, offset, scalar, float or text."""

    at: int
    size: int
    kind: str


def mutate_gguf(data: bytes, rng: random.Random) -> bytes:
    """Rewrite one field, splice the values of two, or damage the bytes."""
    if rng.random() < 0.25:
        # Weights are most of the file and no structure: prefer its beginning.
        cut = rng.choice((len(data), min(len(data), 12_000)))
        return mutate_bytes(data[:cut], rng) + data[cut:]
    listed = fields(data)
    if not listed:
        return mutate_bytes(data, rng)
    kind = rng.choice(sorted({field.kind for field in listed}))
    field = rng.choice([field for field in listed if field.kind == kind])
    if rng.random() < 0.1:
        other = rng.choice(listed)
        return data[: field.at] + data[other.at : other.at + other.size] + data[field.at + field.size :]
    return data[: field.at] + content(field, data, rng) + data[field.at + field.size :]


def content(field: Field, data: bytes, rng: random.Random) -> bytes:
    if field.kind == "type":
        return rng.choice(_TYPES).to_bytes(4, "little")
    if field.kind == "float":
        return struct.pack("<f", rng.choice(_FLOATS))
    if field.kind == "text":
        old = data[field.at : field.at + field.size]
        texts = (
            b"\xff" * len(old),
            b"\x00" * len(old),
            old[::-1],
            b"../../../x\n"[: len(old)].ljust(len(old)),
        )
        return rng.choice((*texts, rng.randbytes(len(old))))
    near = int.from_bytes(data[field.at : field.at + field.size], "little") + rng.choice((-32, -1, 1, 32))
    value = near if rng.random() < 0.3 else integer(rng, 8 * field.size)
    return (value % 2 ** (8 * field.size)).to_bytes(field.size, "little")


@lru_cache(maxsize=64)
def fields(data: bytes) -> tuple[Field, ...]:
    """Every field of the header, as far as it can be followed."""
    walk = _Walk(data)
    with suppress(struct.error, IndexError, MemoryError):  # damaged before: what was found so far will do
        walk.header()
    return tuple(walk.found)


class _Walk:
    def __init__(self, data: bytes) -> None:
        self._data, self._at, self.found = data, 4, list[Field]()

    def header(self) -> None:
        self._field("I", "count")
        tensors, pairs = self._field("Q", "count"), self._field("Q", "count")
        for _ in range(pairs):
            self._text()
            self._value(self._field("I", "type"))
        for _ in range(tensors):
            self._text()
            for _ in range(min(self._field("I", "count"), 8)):
                self._field("Q", "dim")
            self._field("I", "type")
            self._field("Q", "offset")

    def _value(self, kind: int) -> None:
        if kind == _STRING:
            self._text()
        elif kind == _ARRAY:
            inner, count = self._field("I", "type"), self._field("Q", "length")
            for _ in range(count):
                self._value(inner)
        elif kind in _SIZES:
            self._field({1: "B", 2: "H", 4: "I", 8: "Q"}[_SIZES[kind]], "float" if kind == 6 else "scalar")
        else:
            raise IndexError(kind)

    def _text(self) -> None:
        size = self._field("Q", "length")
        if self._at + size > len(self._data):
            raise IndexError(size)
        self.found.append(Field(self._at, size, "text"))
        self._at += size

    def _field(self, code: str, kind: str) -> int:
        (number,) = struct.unpack_from("<" + code, self._data, self._at)
        size = struct.calcsize("<" + code)
        self.found.append(Field(self._at, size, kind))
        self._at += size
        return int(number)
