"""Finds the tensors in the safetensors files of a model directory, and reads their rows as f32.

The ``safetensors`` package checks each header for wrong sizes, overlaps and gaps. Rows are read, not mapped:
memory stays bounded, and a file that shrinks while it is read is an error instead of a crash.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from edgedec.core.errors import BadFileError, NotFoundError, UnsupportedError
from edgedec.core.quick_dataclass import dataclass
from edgedec.export.huggingface.files import read_object

SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"
_AGAIN = "download the model again"
_DTYPES = {"F32": "<f4", "F16": "<f2", "BF16": "<u2"}
"""Types that can be read, with the NumPy type of their bytes."""
_INTEGERS = {"I64": "<i8", "I32": "<i4", "BOOL": "?", "U8": "u1"}


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """A tensor in ``file``; ``offset`` counts bytes from the start of the file."""

    name: str
    file: Path
    dtype: str
    shape: tuple[int, ...]
    offset: int

    def read(self, start: int, stop: int) -> NDArray[np.float32]:
        """Return entries ``start`` to ``stop`` of the first axis as exact f32[stop - start, ...].

        Raises BadFileError when the file ends early or holds a value that is not finite, UnsupportedError for
        a type that is not a plain float.
        """
        if self.dtype not in _DTYPES:
            raise UnsupportedError(
                f"tensor {self.name[:80]} is {self.dtype}", hint=f"supported are {', '.join(_DTYPES)}"
            )
        data = self._data(start, stop, np.dtype(_DTYPES[self.dtype])).reshape(-1)
        if self.dtype == "BF16":
            values = (data.astype(np.uint32) << np.uint32(16)).view(np.float32)
        else:
            values = data.astype(np.float32)
        if not np.isfinite(values).all():
            raise BadFileError(f"tensor {self.name[:80]} holds values that are not finite", hint=_AGAIN)
        return values.reshape(stop - start, *self.shape[1:])

    def read_bytes(self, start: int, stop: int) -> NDArray[np.uint8]:
        """Return such entries of a tensor of bytes, u8[stop - start, ...]. Raises BadFileError."""
        return self._data(start, stop, np.dtype(np.uint8))

    def integers(self) -> NDArray[np.int64]:
        """Return a list of whole numbers or truth values. Raises BadFileError."""
        if self.dtype not in _INTEGERS or len(self.shape) != 1:
            raise BadFileError(f"tensor {self.name[:80]} is no list of whole numbers")
        return self._data(0, self.shape[0], np.dtype(_INTEGERS[self.dtype])).astype(np.int64)

    def _data(self, start: int, stop: int, dtype: np.dtype[Any]) -> NDArray[Any]:
        step = math.prod(self.shape[1:])
        with self.file.open("rb") as stream:
            stream.seek(self.offset + start * step * dtype.itemsize)
            data = np.fromfile(stream, dtype=dtype, count=(stop - start) * step)
        if data.size != (stop - start) * step:
            raise BadFileError(f"{self.file.name} ends inside tensor {self.name[:80]}", hint=_AGAIN)
        return data.reshape(stop - start, *self.shape[1:])


def weight_files(directory: Path) -> list[Path]:
    """Return the safetensors files in order. Raises NotFoundError, BadFileError or UnsupportedError."""
    if (directory / SINGLE).is_file():
        return [directory / SINGLE]
    if not (directory / INDEX).is_file():
        if any(directory.glob("pytorch_model*.bin")):
            raise UnsupportedError(
                f"{directory} has pickled weights only", hint="save the model as safetensors"
            )
        raise NotFoundError(f"{directory} has no {SINGLE}", hint="name a Hugging Face model directory")
    table = read_object(directory / INDEX).get("weight_map")
    if not isinstance(table, dict) or not table:
        raise BadFileError(f"{INDEX} has no weight_map", hint=_AGAIN)
    return [_inside(directory, name) for name in sorted({_text(name) for name in table.values()})]


def read_shards(files: list[Path]) -> dict[str, StoredTensor]:
    """Return all tensors of ``files`` by name. Raises BadFileError, also if a name occurs twice."""
    tensors: dict[str, StoredTensor] = {}
    for file in files:
        for stored in _read_header(file):
            if stored.name in tensors:
                raise BadFileError(f"tensor {stored.name[:80]} lies in two files", hint=_AGAIN)
            tensors[stored.name] = stored
    return tensors


_LONGEST_NAME = 255
"""Longest file name, in bytes."""


def _text(name: Any) -> str:
    if not isinstance(name, str):
        raise BadFileError(f"{INDEX} names a file that is no text", hint=_AGAIN)
    return name


def _inside(directory: Path, name: str) -> Path:
    """Return a file of the directory itself; an index must not name files elsewhere."""
    plain = Path(name).name == name and "\\" not in name and name.isprintable()
    if not plain or not name.endswith(".safetensors") or len(name.encode()) > _LONGEST_NAME:
        raise BadFileError(f"{INDEX} names {name[:80]!a}, which is no file of the model's directory")
    if not (directory / name).is_file():
        raise BadFileError(f"{directory} lacks {name}, which {INDEX} names", hint=_AGAIN)
    return directory / name


def _read_header(file: Path) -> list[StoredTensor]:
    try:
        with safe_open(file, framework="numpy"), file.open("rb") as stream:
            length = int.from_bytes(stream.read(8), "little")
            header = json.loads(stream.read(length))
    except SafetensorError as error:
        why = str(error).removeprefix("Error while deserializing header: ")
        raise BadFileError(f"{file.name} is truncated or damaged: {why[:100]}", hint=_AGAIN) from error
    except OSError as error:
        raise BadFileError(f"{file.name} can not be read: {error.strerror or error}") from error
    return [
        StoredTensor(name, file, entry["dtype"], tuple(entry["shape"]), 8 + length + entry["data_offsets"][0])
        for name, entry in header.items()
        if name != "__metadata__"
    ]
