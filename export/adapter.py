"""An adapter: other scales of a model's weights, in a small file that is merged where it is installed.

A group of 32 weights is ``d q + m``, or ``d (q - offset)`` in formats without minima. An adapter leaves
the quants q alone. It stretches a group about its middle, and moves it, by whole numbers::

    d' = d (1 + a / 512)
    m' = m + d (b / 64 - middle a / 512)        middle: half of the largest quant

It also replaces vectors. So nothing is quantised again, and the model that training measured is the one
that ships. Low-rank changes, quantised to 4 bits after the merge, lost nearly all that they had learned.
Scales are trained in PEQA (Kim et al. 2023), minima in QA-LoRA (Xu et al. 2023).

A matrix in a format with other groups is quantised to ``PLAIN`` first. The file states the hash of the merged
tensors. A merge that ends with another hash is refused.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from edgedec.core.errors import BadFileError, UnsupportedError
from edgedec.core.quick_dataclass import dataclass
from edgedec.disk.files import atomic_path, sha256_of, storage_errors
from edgedec.disk.listed_files import Scalar
from edgedec.export.gguf_header import TensorInfo
from edgedec.export.gguf_source import GgufSource, open_gguf
from edgedec.export.gguf_writer import GgufTensor, Value, copied, metadata_of, write_gguf
from edgedec.export.scales import Change, changed, grouped

MOST_BYTES = 12_000_000
"""Largest file: an adapter is there to be shipped."""
_FORMAT, _VERSION, _KEY = "edgedec-adapter", 2, "edgedec"
_STRETCH, _MOVE, _VECTOR = "|stretch", "|move", "|vector"
_AGAIN = "fetch the adapter again"

Vector = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class AdapterFacts:
    """The header of an adapter: the file that it changes, the model that it drafts for, the result.

    ``merged``: the hash of the changed tensors. ``facts``: what was measured, by name.
    """

    name: str
    base: str
    base_sha256: str
    target: str
    target_sha256: str
    merged: str = ""
    facts: dict[str, Scalar] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WeightAdapter:
    """Changes of matrices, and new vectors, by the names of the tensors in the GGUF file."""

    about: AdapterFacts
    changes: Mapping[str, Change]
    vectors: Mapping[str, Vector] = field(default_factory=dict)

    def save(self, path: Path) -> None:
        """Write the file. Raises UnsupportedError for one that is too large to ship, StorageError."""
        arrays = dict[str, NDArray[Any]]()
        arrays |= {name + _VECTOR: vector for name, vector in self.vectors.items()}
        for name, change in self.changes.items():
            arrays[name + _STRETCH] = change.stretch
            if change.move is not None:
                arrays[name + _MOVE] = change.move
        if (nbytes := sum(array.nbytes for array in arrays.values())) > MOST_BYTES:
            raise UnsupportedError(
                f"an adapter of {nbytes / 1e6:.1f} MB: at most {MOST_BYTES / 1e6:g} MB ship"
            )
        header = {"format": _FORMAT, "version": _VERSION, **asdict(self.about)}
        with storage_errors(str(path)), atomic_path(path) as temporary:
            save_file(arrays, temporary, metadata={_KEY: json.dumps(header, sort_keys=True)})

    @classmethod
    def load(cls, path: Path) -> WeightAdapter:
        """Read a file. Raises BadFileError for one that is damaged, or no adapter."""
        try:
            if path.stat().st_size > 2 * MOST_BYTES:
                raise ValueError("too large")
            with safe_open(path, framework="numpy") as file:
                header = json.loads((file.metadata() or {})[_KEY])
                if (header.pop("format"), header.pop("version")) != (_FORMAT, _VERSION):
                    raise ValueError("another format")
                arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no mapping
            vectors, changes = _parted(arrays)
            return cls(AdapterFacts(**header), changes, vectors)
        except (SafetensorError, OSError, ValueError, TypeError, KeyError, RecursionError) as error:
            raise BadFileError(f"{path} is damaged, or no adapter of EdgeDec", hint=_AGAIN) from error


def is_adapter(path: Path) -> bool:
    """Whether a file says that it is an adapter, damaged or not."""
    if path.suffix != ".safetensors" or not path.is_file():
        return False
    with path.open("rb") as stream:
        return f'\\"format\\": \\"{_FORMAT}\\"'.encode() in stream.read(1 << 16)


def merge(adapter: WeightAdapter, base: Path, out: Path) -> str:
    """Write ``base`` with the changes of ``adapter`` as the GGUF file ``out``; returns the tensors' hash.

    Raises BadFileError where ``base`` is another file than the adapter was made for, or where the result has
    another hash than the adapter states; nothing is written then. Raises StorageError.
    """
    about, named = adapter.about, adapter.changes.keys() | adapter.vectors.keys()
    if sha256_of(base) != about.base_sha256:
        raise BadFileError(
            f"{base} is not the file that {about.name} was made for", hint=f"it is {about.base}"
        )
    with open_gguf(base) as gguf:
        if unknown := named - gguf.tensors.keys():
            raise BadFileError(f"{about.name} changes {min(unknown)[:60]}, which {base} lacks", hint=_AGAIN)
        tensors = [_merged(gguf, tensor, adapter) for tensor in gguf.tensors.values()]
    found = _hash([one for one in tensors if one.name in named])
    if about.merged and found != about.merged:
        raise BadFileError(f"{about.name} merged with {base} gives other weights than it states", hint=_AGAIN)
    metadata = metadata_of(gguf.path)
    metadata["general.name"] = Value.of(about.name)
    write_gguf(out, metadata, tensors)
    return found


def _merged(gguf: GgufSource, tensor: TensorInfo, adapter: WeightAdapter) -> GgufTensor:
    name, change = tensor.name, adapter.changes.get(tensor.name)
    if len(tensor.shape) == 1:
        vector = adapter.vectors.get(name)
        if change is not None or (vector is not None and vector.shape != tensor.shape):
            raise _other_sizes(name)
        return GgufTensor(name, gguf.vector(tensor) if vector is None else vector)
    whole = copied(gguf, tensor)
    if name in adapter.vectors or (change is not None and len(tensor.shape) > 2):
        raise _other_sizes(name)
    if change is None:
        return whole
    format, packed = grouped(tensor, whole.data)
    try:
        return GgufTensor(name, changed(format, packed, change), format)
    except ValueError as error:
        raise _other_sizes(name) from error


def _other_sizes(name: str) -> BadFileError:
    return BadFileError(f"the adapter has other sizes for {name} than the model", hint=_AGAIN)


def _parted(arrays: dict[str, NDArray[Any]]) -> tuple[dict[str, Vector], dict[str, Change]]:
    """Return vectors and changes. Raises ValueError for others."""
    vectors, changes = dict[str, Vector](), dict[str, Change]()
    for key in sorted(arrays):
        name, array = key.rpartition("|")[0], arrays[key]
        if (
            key.endswith(_VECTOR)
            and array.dtype == np.float32
            and array.ndim == 1
            and np.isfinite(array).all()
        ):
            vectors[name] = array.astype(np.float32)
        elif key.endswith(_STRETCH) and array.dtype == np.int8 and array.ndim == 2:
            move = arrays.get(name + _MOVE)
            if move is not None and (move.dtype != np.int8 or move.shape != array.shape):
                raise ValueError(key)
            changes[name] = Change(array.astype(np.int8), None if move is None else move.astype(np.int8))
        elif not (key.endswith(_MOVE) and name + _STRETCH in arrays):
            raise ValueError(key)
    if not changes:
        raise ValueError("no changes")
    return vectors, changes


def _hash(tensors: Sequence[GgufTensor]) -> str:
    digest = hashlib.sha256()
    for tensor in sorted(tensors, key=lambda one: one.name):
        digest.update(f"{tensor.name} {tensor.format}\n".encode())
        digest.update(np.ascontiguousarray(tensor.data).tobytes())
    return digest.hexdigest()
