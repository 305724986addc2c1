"""Writes a GGUF file: metadata of another file with changes, and tensors in any format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from gguf import GGUFReader, GGUFWriter
from gguf.constants import GGMLQuantizationType, GGUFValueType
from numpy.typing import NDArray

from edgedec.core.errors import UnsupportedError
from edgedec.core.quick_dataclass import dataclass
from edgedec.disk.files import atomic_path, storage_errors
from edgedec.export.gguf_header import TensorInfo
from edgedec.export.gguf_source import GgufSource

ARCHITECTURE = "general.architecture"
_OF_THE_FILE = ("GGUF.", "split.")
"""Begins of names that the reader gives to counts in the header, and of keys of a file in parts."""


@dataclass(frozen=True, slots=True)
class Value:
    """A metadata value; ``elements`` is the type of those of an array."""

    value: Any
    type: GGUFValueType
    elements: GGUFValueType | None = None

    @classmethod
    def of(cls, value: Any) -> Value:
        """Return a value of the usual type of its kind; lists are of numbers or of truth values."""
        if isinstance(value, list):
            return cls(value, GGUFValueType.ARRAY, cls.of(value[0]).type)
        return cls(value, GGUFValueType.UINT32 if type(value) is int else GGUFValueType.get_type(value))


@dataclass(frozen=True, slots=True)
class GgufTensor:
    """A tensor as it lies in the file: ``data`` u8[rows, bytes of a row] for a matrix of format ``format``,
    or the numbers themselves.
    """

    name: str
    data: NDArray[Any]
    format: str | None = None


def copied(gguf: GgufSource, tensor: TensorInfo) -> GgufTensor:
    """Return a tensor as it lies in its file. Raises BadFileError, UnsupportedError where it is in two."""
    if tensor.scales:
        raise UnsupportedError(
            f"tensor {tensor.name[:60]} is {tensor.type.name} with a scale of its own, which is not copied",
            hint="start from a Q4_K_M file of the model",
        )
    if len(tensor.shape) == 1:
        return GgufTensor(tensor.name, gguf.vector(tensor))
    rows = gguf.rows(tensor, 0, tensor.rows)
    return GgufTensor(tensor.name, rows.reshape(*tensor.shape[:-1], -1), tensor.format)


def metadata_for(architecture: str, name: str, facts: Mapping[str, Any]) -> dict[str, Value]:
    """Return the metadata of a file called ``name``; ``facts`` are those of its architecture."""
    found = {ARCHITECTURE: architecture, "general.name": name}
    found |= {f"{architecture}.{key}": value for key, value in facts.items()}
    return {key: one if isinstance(one, Value) else Value.of(one) for key, one in found.items()}


def metadata_of(path: Path) -> dict[str, Value]:
    """Return all metadata of a GGUF file that was checked before, with types, in the order of the file."""
    fields = GGUFReader(path).fields.values()
    return {field.name: _value(field) for field in fields if not field.name.startswith(_OF_THE_FILE)}


def _value(field: Any) -> Value:
    kind = field.types[0]
    return Value(field.contents(), kind, field.types[-1] if kind == GGUFValueType.ARRAY else None)


def write_gguf(path: Path, metadata: Mapping[str, Value], tensors: Sequence[GgufTensor]) -> None:
    """Write a whole file or nothing. Empty arrays of ``metadata`` are left out. Raises StorageError."""
    with atomic_path(path) as temporary, storage_errors(str(path)):
        writer = GGUFWriter(temporary, str(metadata[ARCHITECTURE].value))
        for key, one in metadata.items():
            if key != ARCHITECTURE and not (one.type == GGUFValueType.ARRAY and len(one.value) == 0):
                writer.add_key_value(key, one.value, one.type, one.elements)
        for tensor in tensors:
            kind = None if tensor.format is None else GGMLQuantizationType[tensor.format.upper()]
            writer.add_tensor(tensor.name, np.ascontiguousarray(tensor.data), raw_dtype=kind)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
