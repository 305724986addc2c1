"""Reads a GGUF file: its header, and its tensors a few rows at a time."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from gguf.constants import GGMLQuantizationType
from numpy.typing import NDArray

from edgedec.core.errors import BadFileError, NotFoundError, UnsupportedError
from edgedec.core.quick_dataclass import dataclass
from edgedec.export.gguf_header import MOST_HEADER_BYTES, Header, TensorInfo, parse_header
from edgedec.export.gguf_parts import part_name, whole_file
from edgedec.export.gguf_scales import with_scales

_NUMBER, _COUNT, _TENSORS = "split.no", "split.count", "split.tensors.count"
"""Keys of a part's metadata: its number from 0 on, the number of parts, and of tensors in all of them."""
_ARCHITECTURE = "general.architecture"
_MOST_TENSORS = 1 << 31
_TOGETHER = "download all parts of the model again, into one folder"


@dataclass(frozen=True, slots=True)
class _File:
    """An open file, and its header."""

    path: Path
    stream: BinaryIO
    nbytes: int
    header: Header


class GgufSource:
    """An open GGUF file, or the parts of one.

    Rows are read, not mapped. Memory stays bounded, and a file that shrinks while it is read is an error
    instead of a crash.
    """

    title = "the GGUF file"

    def __init__(self, files: Sequence[_File]) -> None:
        """``files``: the parts in order, which fit each other. The first has the metadata."""
        self.path = files[0].path
        self.paths = [file.path for file in files]
        self.nbytes = sum(file.nbytes for file in files)
        self.metadata: dict[str, Any] = files[0].header.metadata
        self.tensors: dict[str, TensorInfo] = {}
        self._file_of: dict[str, _File] = {}
        for file in files:
            self.tensors |= file.header.tensors
            self._file_of |= dict.fromkeys(file.header.tensors, file)
        self.tensors = with_scales(self.tensors, self.vector, self.metadata.get(_ARCHITECTURE))

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
        file = self._file_of[tensor.name]
        file.stream.seek(offset)
        data = np.fromfile(file.stream, dtype=np.uint8, count=size)
        if data.size != size:
            raise BadFileError(f"{file.path.name} ends inside tensor {tensor.name}", hint="download it again")
        return data


@contextmanager
def open_gguf(path: Path) -> Iterator[GgufSource]:
    """Open a GGUF file, and with a part of one all others.

    Raises NotFoundError, BadFileError or UnsupportedError.
    """
    with ExitStack() as stack:
        given = _open(path, stack)
        count = _stated(given, _COUNT) or 1
        if count == 1:
            yield GgufSource([given])
            return
        name, number = part_name(path.name), _stated(given, _NUMBER) + 1
        if name is None or name.count != count:
            raise BadFileError(
                f"{path.name} is part {number} of {count} of a model, and has not the name of one",
                hint=f"name the parts NAME-00001-of-{count:05}.gguf, NAME-00002-of-{count:05}.gguf and so on",
            )
        others = [path.with_name(other) for other in name.all()]
        if missing := [other.name for other in others if not other.exists()]:
            raise NotFoundError(
                f"{path.name} is a part of a model in {count} parts, and there is no {missing[0]} beside it",
                hint="download all parts into one folder",
            )
        files = [given if other == path else _open(other, stack) for other in others]
        _check_parts(files)
        yield GgufSource(files)


def _open(path: Path, stack: ExitStack) -> _File:
    """Open one file until ``stack`` ends."""
    if path.is_dir():
        raise BadFileError(f"{path} is a directory", hint="name a .gguf file")
    if path.exists() and not path.is_file():  # to open a pipe would wait for its other end
        raise BadFileError(f"{path} is a pipe or a device, not a file", hint="save it to a file first")
    if whole := whole_file(path.name):
        raise BadFileError(
            f"{path.name} is a piece of {whole}, which holds no model by itself",
            hint=f"join all pieces, in their order, to a file {whole} (cat PIECE PIECE > {whole})",
        )
    try:
        stream = stack.enter_context(path.open("rb"))
    except FileNotFoundError as error:
        raise NotFoundError(f"no file {path}") from error
    except OSError as error:
        raise BadFileError(f"{path} can not be read: {error.strerror}") from error
    nbytes = os.fstat(stream.fileno()).st_size
    if nbytes == 0:
        raise BadFileError(f"{path} is empty", hint="download it again")
    return _File(path, stream, nbytes, _read_header(stream, nbytes, path.name))


def _stated(file: _File, key: str) -> int:
    """Return a number of a part's metadata; 0 where it states none."""
    value = file.header.metadata.get(key, 0)
    if type(value) is not int or not 0 <= value <= _MOST_TENSORS:
        raise BadFileError(f"{file.path.name}: {key} is {str(value)[:40]}, not a number of parts or tensors")
    return value


def _check_parts(files: Sequence[_File]) -> None:
    """Check that files are the parts of one model, in their order. Raises BadFileError."""
    first, seen = files[0], dict[str, _File]()
    for number, file in enumerate(files):
        found, count = _stated(file, _NUMBER), _stated(file, _COUNT)
        if (found, count) != (number, len(files)):
            part = f"part {found + 1} of {count}" if count else "no part of a model"
            raise BadFileError(f"{file.path.name} is {part} by its contents", hint=_TOGETHER)
        name = file.header.metadata.get(_ARCHITECTURE, first.header.metadata.get(_ARCHITECTURE))
        same = name == first.header.metadata.get(_ARCHITECTURE)
        if not same or _stated(file, _TENSORS) != _stated(first, _TENSORS):
            raise BadFileError(
                f"{file.path.name} is a part of another model than {first.path.name}", hint=_TOGETHER
            )
        for tensor in file.header.tensors:
            if tensor in seen:
                raise BadFileError(
                    f"{file.path.name} and {seen[tensor].path.name} both have tensor {tensor[:60]!r}",
                    hint=_TOGETHER,
                )
            seen[tensor] = file
    stated = _stated(first, _TENSORS)
    if stated and stated != len(seen):
        raise BadFileError(
            f"the parts beside {first.path.name} have {len(seen)} tensors together instead of {stated}",
            hint=_TOGETHER,
        )


def _read_header(stream: BinaryIO, nbytes: int, name: str) -> Header:
    length = min(nbytes, MOST_HEADER_BYTES)
    with mmap.mmap(stream.fileno(), length, access=mmap.ACCESS_READ) as mapped, memoryview(mapped) as view:
        return _parse_and_release(view, nbytes, name)


def _parse_and_release(view: memoryview, nbytes: int, name: str) -> Header:
    """Parse without keeping slices of ``view`` in a traceback: a map with slices cannot be closed."""
    try:
        return parse_header(view, nbytes)
    except (BadFileError, UnsupportedError) as error:
        raise error.reworded(f"{name}: {error.message}") from None
