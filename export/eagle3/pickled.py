"""Finds the tensors in ``pytorch_model.bin`` without PyTorch, and without running anything that it holds.

The file is a zip archive: ``data.pkl`` describes the tensors, and each lies uncompressed in a member of its
own. The description is a pickle. Of all that a pickle may call, only the few names that tensors are made of
exist here; any other is an error. Nothing is imported by a name in the file.
"""

from __future__ import annotations

import io
import math
import pickle
import zipfile
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from edgedec.core.errors import BadFileError, UnsupportedError
from edgedec.core.quick_dataclass import dataclass
from edgedec.export.huggingface.shards import StoredTensor

PICKLED = "pytorch_model.bin"
_DESCRIPTION = "data.pkl"
_MOST_BYTES = 1 << 24
_MOST_TENSORS = 1 << 12
_LOCAL_HEADER = 30
"""Bytes of a member's own header before its name; two lengths are at 26 and 28."""
_STORAGES = {
    "FloatStorage": ("F32", 4),
    "HalfStorage": ("F16", 2),
    "BFloat16Storage": ("BF16", 2),
    "LongStorage": ("I64", 8),
    "IntStorage": ("I32", 4),
    "BoolStorage": ("BOOL", 1),
}


@dataclass(frozen=True, slots=True)
class _Storage:
    dtype: str
    size: int
    key: str


@dataclass(frozen=True, slots=True)
class _Tensor:
    storage: _Storage
    first: int
    shape: tuple[int, ...]


def read_pickled(file: Path) -> dict[str, StoredTensor]:
    """Return all tensors by name. Raises BadFileError, or UnsupportedError for another form of file."""
    try:
        with zipfile.ZipFile(file) as archive:
            members = {one.filename: one for one in archive.infolist()}
            name = next((one for one in members if one.endswith(f"/{_DESCRIPTION}")), None)
            if name is None or members[name].file_size > _MOST_BYTES:
                raise _damaged(file, f"it has no {_DESCRIPTION}")
            described = _Description(io.BytesIO(archive.read(name))).load()
    except (BadFileError, UnsupportedError):
        raise
    except zipfile.BadZipFile as error:
        raise _damaged(file, "it is no zip archive, or cut short") from error
    except Exception as error:  # a pickle can fail in any way
        raise _damaged(file, "its description cannot be read") from error
    tensors = _flat(described)
    if len(tensors) > _MOST_TENSORS:
        raise _damaged(file, "it has too many tensors")
    folder = name.removesuffix(_DESCRIPTION)
    return {name: _stored(file, members, folder, name, one) for name, one in tensors.items()}


class _Description(pickle.Unpickler):
    """Reads nested dictionaries of tensors."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("collections", "OrderedDict"):
            return OrderedDict
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return _tensor
        if (module, name) == ("torch._utils", "_rebuild_parameter"):
            return _parameter
        if module == "torch" and name in _STORAGES:
            return name
        raise UnsupportedError(
            f"{PICKLED} holds {module[:40]}.{name[:40]}, which is no tensor", hint="save it as safetensors"
        )

    def persistent_load(self, pid: Any) -> _Storage:
        kind, storage, key, *_ = pid
        if kind != "storage" or not isinstance(key, str):
            raise ValueError("no storage")
        dtype, size = _STORAGES[storage]
        return _Storage(dtype, size, key)


def _tensor(storage: _Storage, first: int, shape: Any, stride: Any, *_: Any) -> _Tensor:
    shape, stride = tuple(shape), tuple(stride)
    sizes = (first, *shape, *stride)
    if not isinstance(storage, _Storage) or not all(type(one) is int and one >= 0 for one in sizes):
        raise ValueError("no tensor")
    contiguous = tuple(math.prod(shape[at + 1 :]) for at in range(len(shape)))
    if stride != contiguous:
        raise UnsupportedError(f"{PICKLED} holds a tensor that is a view", hint="save it as safetensors")
    return _Tensor(storage, first, shape)


def _parameter(tensor: _Tensor, *_: Any) -> _Tensor:
    return tensor


def _flat(described: Any) -> dict[str, _Tensor]:
    """Return the tensors of a state dictionary, which may lie in another one under one name."""
    if isinstance(described, dict) and len(described) == 1:
        (only,) = described.values()
        described = only if isinstance(only, dict) else described
    found = described.items() if isinstance(described, dict) else ()
    return {name: one for name, one in found if isinstance(name, str) and isinstance(one, _Tensor)}


def _stored(
    file: Path, members: Mapping[str, zipfile.ZipInfo], folder: str, name: str, tensor: _Tensor
) -> StoredTensor:
    storage = tensor.storage
    member = members.get(f"{folder}data/{storage.key}")
    end = (tensor.first + math.prod(tensor.shape)) * storage.size
    if member is None or member.compress_type != zipfile.ZIP_STORED or end > member.file_size:
        raise _damaged(file, f"it lacks tensor {name[:80]}")
    with file.open("rb") as stream:
        stream.seek(member.header_offset)
        header = stream.read(_LOCAL_HEADER)
    lengths = int.from_bytes(header[26:28], "little") + int.from_bytes(header[28:30], "little")
    offset = member.header_offset + _LOCAL_HEADER + lengths + tensor.first * storage.size
    return StoredTensor(name, file, storage.dtype, tensor.shape, offset)


def _damaged(file: Path, why: str) -> BadFileError:
    return BadFileError(f"{file.name} is damaged: {why}", hint="download it again")
