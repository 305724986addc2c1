"""Reads a GGUF file: its header, and its tensors a few rows at a time."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from gguf.constants import GGMLQuantizationType
from numpy.typing import NDArray

from edgedec.core.errors import BadFileError, NotFoundError, UnsupportedError
from edgedec.export.gguf_header import MOST_HEADER_BYTES, TensorInfo, parse_header


class GgufSource:
    """An open GGUF file.

    Rows are read, not mapped. Memory stays bounded, and a file that shrinks while it is read is an error
    instead of a crash.
    """

    title = "the GGUF file"

    def __init__(self, path: Path, stream: BinaryIO) -> None:
        self.path = path
        self._stream = stream
        self.nbytes = os.fstat(stream.fileno()).st_size
        if self.nbytes == 0:
            raise BadFileError(f"{path} is empty", hint="download it again")
        header = _read_header(stream, self.nbytes, path.name)
        self.metadata: dict[str, Any] = header.metadata
        self.tensors: dict[str, TensorInfo] = header.tensors
        if self.metadata.get("split.count", 1) not in (0, 1):
            raise UnsupportedError(
                f"{path.name} is one part of a split model", hint="merge it with llama-gguf-split --merge"
            )

    def spelling(self, name: str) -> str:
        """Return the name itself: the exporter uses GGUF names."""
        return name

    def rows(self, tensor: TensorInfo, start: int, stop: int) -> NDArray[np.uint8]:
        """Return rows of matrices as stored: u8[stop - start, bytes of a row]. Raises BadFileError."""
        row_bytes = tensor.nbytes // tensor.rows
        data = self._read(tensor, tensor.offset + start * row_bytes, (stop - start) * row_bytes)
        return data.reshape(stop - start, row_bytes)

    def vector(self, tensor: TensorInfo) -> NDArray[np.float32]:
        """Return a small float tensor as exact f32. Raises UnsupportedError when it is quantised."""
        data = self._read(tensor, tensor.offset, tensor.nbytes)
        if tensor.type == GGMLQuantizationType.F32:
            return data.view(np.float32)
        if tensor.type == GGMLQuantizationType.F16:
            return data.view(np.float16).astype(np.float32)
        if tensor.type == GGMLQuantizationType.BF16:
            return (data.view(np.uint16).astype(np.uint32) << np.uint32(16)).view(np.float32)
        raise UnsupportedError(f"tensor {tensor.name} is {tensor.type.name}", hint="norms and biases are F32")

    def integers(self, tensor: TensorInfo) -> NDArray[np.int64]:
        """Return a list of integers. Raises BadFileError, and UnsupportedError for another type."""
        kinds = {GGMLQuantizationType.I32: np.int32, GGMLQuantizationType.I64: np.int64}
        if tensor.type not in kinds or len(tensor.shape) != 1:
            raise UnsupportedError(f"tensor {tensor.name} is {tensor.type.name}, no list of integers")
        return self._read(tensor, tensor.offset, tensor.nbytes).view(kinds[tensor.type]).astype(np.int64)

    def _read(self, tensor: TensorInfo, offset: int, size: int) -> NDArray[np.uint8]:
        self._stream.seek(offset)
        data = np.fromfile(self._stream, dtype=np.uint8, count=size)
        if data.size != size:
            raise BadFileError(f"{self.path.name} ends inside tensor {tensor.name}", hint="download it again")
        return data


@contextmanager
def open_gguf(path: Path) -> Iterator[GgufSource]:
    """Open a GGUF file. Raises NotFoundError, BadFileError or UnsupportedError."""
    if path.is_dir():
        raise BadFileError(f"{path} is a directory", hint="name a .gguf file")
    if path.exists() and not path.is_file():  # to open a pipe would wait for its other end
        raise BadFileError(f"{path} is a pipe or a device, not a file", hint="save it to a file first")
    try:
        stream = path.open("rb")
    except FileNotFoundError as error:
        raise NotFoundError(f"no file {path}") from error
    except OSError as error:
        raise BadFileError(f"{path} can not be read: {error.strerror}") from error
    with stream:
        yield GgufSource(path, stream)


def _read_header(stream: BinaryIO, nbytes: int, name: str) -> Any:
    length = min(nbytes, MOST_HEADER_BYTES)
    with mmap.mmap(stream.fileno(), length, access=mmap.ACCESS_READ) as mapped, memoryview(mapped) as view:
        return _parse_and_release(view, nbytes, name)


def _parse_and_release(view: memoryview, nbytes: int, name: str) -> Any:
    """Parse without keeping slices of ``view`` in a traceback: a map with slices cannot be closed."""
    try:
        return parse_header(view, nbytes)
    except (BadFileError, UnsupportedError) as error:
        raise error.reworded(f"{name}: {error.message}") from None
