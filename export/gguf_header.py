"""Parses the header of a GGUF file (ggml/docs/gguf.md, versions 2 and 3).

The file is not trusted. Every count is checked against the bytes that remain before anything is allocated,
and the size of the whole header is limited.
"""

from __future__ import annotations

import math
import struct
from typing import Any

import numpy as np
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType
from numpy.typing import NDArray

from edgedec.core.errors import BadFileError, UnsupportedError
from edgedec.core.quick_dataclass import dataclass

MOST_HEADER_BYTES = 1 << 28
_MOST_VALUES = 1 << 23
_MOST_NAME = 1 << 16
_MOST_DIM = 1 << 31
_STRING, _ARRAY, _BOOL = 8, 9, 7
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", _BOOL: "?", 10: "Q", 11: "q", 12: "d"}
_SMALLEST_PAIR = 8 + 4 + 1
_SMALLEST_TENSOR = 8 + 4 + 8 + 4 + 8


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """An entry of the tensor list.

    ``shape`` is (rows, cols), (n,) for a vector, or (experts, rows, cols); ``offset`` counts bytes from the
    start of the file. ``scales``: one that multiplies all weights, or one of each expert; empty: none.
    """

    name: str
    type: GGMLQuantizationType
    shape: tuple[int, ...]
    offset: int
    nbytes: int
    scales: tuple[float, ...] = ()

    @classmethod
    def unwritten(cls, name: str, shape: tuple[int, ...], format: str) -> TensorInfo:
        """Return the entry of a tensor that lies in no GGUF file. Raises KeyError for an unknown format."""
        type = GGMLQuantizationType[format.upper()]
        block, block_bytes = GGML_QUANT_SIZES[type]
        return cls(name, type, shape, 0, math.prod(shape) // block * block_bytes)

    @property
    def rows(self) -> int:
        """Number of rows, of all experts together; of a vector, of its numbers."""
        return math.prod(self.shape[:-1]) if len(self.shape) > 1 else self.shape[0]

    @property
    def format(self) -> str:
        """Name of the type in lower case; ``kernels.packing.recode`` says in which format it is packed."""
        return self.type.name.lower()

    def scale(self, row: int) -> float:
        """Return the factor of all weights of a row, counted over all experts."""
        return self.scales[row * len(self.scales) // self.rows] if self.scales else 1.0

    def values(self, raw: NDArray[np.uint8], first: int = 0) -> NDArray[np.float32]:
        """Return rows as they lie in the file, from row ``first`` of one expert on, as floats."""
        from gguf import quants  # slow import

        found = quants.dequantize(raw, self.type).astype(np.float32, copy=False)
        return found * np.float32(self.scale(first)) if self.scales else found


@dataclass(frozen=True, slots=True)
class Header:
    """Metadata, with strings decoded and arrays as lists, and tensors by name.

    A text that is not UTF-8 stays bytes: most keys are never read, and who reads one refuses it.
    """

    metadata: dict[str, Any]
    tensors: dict[str, TensorInfo]


def parse_header(data: memoryview, file_bytes: int) -> Header:
    """Parse the header at the start of ``data`` (the first MOST_HEADER_BYTES of a file of ``file_bytes``).

    Raises BadFileError when it is cut short, contradicts itself or points outside the file;
    UnsupportedError for another version, byte order or tensor type.
    """
    cursor = _Cursor(data)
    _check_magic(cursor)
    tensors, pairs = cursor.count(_SMALLEST_TENSOR, "tensors"), cursor.scalar("Q")
    cursor.expect(pairs, _SMALLEST_PAIR, "metadata values")
    metadata: dict[str, Any] = {}
    for _ in range(pairs):
        key = cursor.text("a metadata key", _MOST_NAME)
        if key in metadata:
            raise _bad(f"metadata key {key[:60]!r} occurs twice")
        metadata[key] = cursor.value(key)
    listed = [_tensor_fields(cursor) for _ in range(tensors)]
    alignment = metadata.get("general.alignment", 32)
    if not isinstance(alignment, int) or not 0 < alignment <= 1 << 20 or alignment & (alignment - 1):
        raise _bad("its alignment is not a power of two")
    start = -(-cursor.position // alignment) * alignment
    return Header(metadata, _place(listed, start, alignment, file_bytes))


def _bad(why: str) -> BadFileError:
    return BadFileError(f"not a usable GGUF file: {why}", hint="download it again")


def _check_magic(cursor: _Cursor) -> None:
    if bytes(cursor.take(4, "the magic")) != b"GGUF":
        raise BadFileError("not a GGUF file: it does not begin with 'GGUF'", hint="name a .gguf file")
    version = cursor.scalar("I")
    if version & 0xFFFF == 0:
        raise UnsupportedError("the GGUF file is big-endian", hint="use the little-endian file")
    if version not in (2, 3):
        raise UnsupportedError(f"GGUF version {version} is not supported", hint="convert the model again")


class _Cursor:
    """A read position that cannot leave the header."""

    def __init__(self, data: memoryview) -> None:
        self._data, self.position, self._values = data, 0, _MOST_VALUES

    def expect(self, count: int, size: int, what: str) -> None:
        """Raise BadFileError if ``count`` items of at least ``size`` bytes cannot fit."""
        if count * size > len(self._data) - self.position:
            raise _bad(f"it is cut short, or claims {count} {what}")
        self._values -= count
        if self._values < 0:
            raise _bad(f"its header holds more than {_MOST_VALUES} values")

    def take(self, size: int, what: str) -> memoryview:
        end = self.position + size
        if end > len(self._data):
            raise _bad(f"it is cut short in {what}")
        piece = self._data[self.position : end]
        self.position = end
        return piece

    def scalar(self, code: str) -> Any:
        size = struct.calcsize("<" + code)
        return struct.unpack("<" + code, self.take(size, "a number"))[0]

    def count(self, size: int, what: str) -> int:
        number: int = self.scalar("Q")
        self.expect(number, size, what)
        return number

    def text(self, what: str, most: int = MOST_HEADER_BYTES) -> str:
        try:
            return str(self._piece(what, most), "utf-8")
        except UnicodeDecodeError as error:
            raise _bad(f"{what} is not UTF-8") from error

    def _piece(self, what: str, most: int) -> memoryview:
        size = self.scalar("Q")
        if size > most:
            raise _bad(f"{what} is {size} bytes long")
        return self.take(size, what)

    def _stored(self, key: str) -> str | bytes:
        piece = self._piece(f"the value of {key!r}", MOST_HEADER_BYTES)
        try:
            return str(piece, "utf-8")
        except UnicodeDecodeError:
            return bytes(piece)

    def value(self, key: str) -> Any:
        kind = self.scalar("I")
        if kind == _STRING:
            return self._stored(key)
        if kind in _SCALARS:
            return self.scalar(_SCALARS[kind])
        if kind != _ARRAY:
            raise _bad(f"metadata key {key!r} has the unknown type {kind}")
        return self._array(key)

    def _array(self, key: str) -> list[Any]:
        kind = self.scalar("I")
        if kind == _STRING:
            return [self._stored(key) for _ in range(self.count(8, f"values in {key!r}"))]
        if kind not in _SCALARS:
            raise _bad(f"metadata key {key!r} is an array of the unsupported type {kind}")
        dtype = np.dtype("<" + _SCALARS[kind])
        number = self.count(dtype.itemsize, f"values in {key!r}")
        values: list[Any] = np.frombuffer(self.take(number * dtype.itemsize, key), dtype=dtype).tolist()
        return values


def _tensor_fields(cursor: _Cursor) -> tuple[str, tuple[int, ...], int, int]:
    """Return name, shape with the contiguous axis last, type number, and offset from the data's start."""
    name = cursor.text("a tensor name", _MOST_NAME)
    dims = cursor.scalar("I")
    if not 1 <= dims <= 4:
        raise _bad(f"tensor {name[:60]!r} has {dims} dimensions")
    shape = tuple(cursor.scalar("Q") for _ in range(dims))[::-1]
    if any(not 0 < size < _MOST_DIM for size in shape):
        raise _bad(f"tensor {name[:60]!r} has an impossible shape")
    return name, shape, cursor.scalar("I"), cursor.scalar("Q")


def _place(
    listed: list[tuple[str, tuple[int, ...], int, int]], start: int, alignment: int, file_bytes: int
) -> dict[str, TensorInfo]:
    tensors: dict[str, TensorInfo] = {}
    for name, shape, number, offset in listed:
        if number not in GGMLQuantizationType._value2member_map_:
            raise UnsupportedError(
                f"tensor {name[:60]!r} has the unknown type {number}",
                hint="use a Q4_K_M file",
            )
        kind = GGMLQuantizationType(number)
        block, block_bytes = GGML_QUANT_SIZES[kind]
        nbytes = math.prod(shape) // block * block_bytes
        if shape[-1] % block:
            raise _bad(f"tensor {name[:60]!r} has rows of {shape[-1]}, not a multiple of {block}")
        if name in tensors:
            raise _bad(f"tensor {name[:60]!r} occurs twice")
        if offset % alignment or start + offset + nbytes > file_bytes:
            raise _bad(f"tensor {name[:60]!r} lies outside the file (cut short?)")
        tensors[name] = TensorInfo(name, kind, shape, start + offset, nbytes)
    if sum(tensor.nbytes for tensor in tensors.values()) > file_bytes:
        raise _bad("its tensors overlap")
    return tensors
