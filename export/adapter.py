"""An adapter: low-rank changes of a model's matrices, in a small file that is merged where it is installed.

Matrix W becomes W + up @ down. The products are added one rank after the other, in float32 without fused
operations, and the result is quantised once, in the format that W has. The file states the hash of the merged
matrices. A merge that ends with another hash is refused.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from gguf import quants
from gguf.constants import GGUFValueType
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from edgedec.core.errors import BadFileError, UnsupportedError
from edgedec.core.files import atomic_path, sha256_of, storage_errors
from edgedec.core.listed_files import Scalar
from edgedec.export.calibration.search import quantise
from edgedec.export.gguf_header import TensorInfo
from edgedec.export.gguf_source import GgufSource, open_gguf
from edgedec.export.gguf_writer import GgufTensor, Value, metadata_of, write_gguf
from edgedec.kernels.packing.formats import FORMATS

MOST_BYTES = 12_000_000
"""Largest file: an adapter is there to be shipped."""
_FORMAT, _VERSION, _KEY = "edgedec-adapter", 1, "edgedec"
_DOWN, _UP = "|down", "|up"
_AGAIN = "fetch the adapter again"

Low = tuple[NDArray[np.float16], NDArray[np.float16]]
"""``down`` f16[rank, in] and ``up`` f16[out, rank]."""


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
    """Low-rank changes by the name of the matrix in the GGUF file."""

    about: AdapterFacts
    low: Mapping[str, Low]

    def save(self, path: Path) -> None:
        """Write the file. Raises UnsupportedError for one that is too large to ship, StorageError."""
        arrays = dict[str, NDArray[np.float16]]()
        for name, (down, up) in self.low.items():
            arrays |= {name + _DOWN: down, name + _UP: up}
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
            names = sorted(name.removesuffix(_UP) for name in arrays if name.endswith(_UP))
            low = {name: (arrays.pop(name + _DOWN), arrays.pop(name + _UP)) for name in names}
            if arrays or not low or not all(_fits(*pair) for pair in low.values()):
                raise ValueError("other tensors")
            return cls(AdapterFacts(**header), low)
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
    about = adapter.about
    if sha256_of(base) != about.base_sha256:
        raise BadFileError(
            f"{base} is not the file that {about.name} was made for", hint=f"it is {about.base}"
        )
    with open_gguf(base) as gguf:
        if unknown := adapter.low.keys() - gguf.tensors.keys():
            raise BadFileError(f"{about.name} changes {min(unknown)[:60]}, which {base} lacks", hint=_AGAIN)
        tensors = [_merged(gguf, tensor, adapter.low.get(name)) for name, tensor in gguf.tensors.items()]
    found = _hash([one for one in tensors if one.name in adapter.low])
    if about.merged and found != about.merged:
        raise BadFileError(f"{about.name} merged with {base} gives other weights than it states", hint=_AGAIN)
    metadata = metadata_of(base)
    metadata["general.name"] = Value(about.name, GGUFValueType.STRING)
    write_gguf(out, metadata, tensors)
    return found


def merged_matrix(values: NDArray[np.float32], low: Low) -> NDArray[np.float32]:
    """Return ``values`` + up @ down, added one rank after the other."""
    down, up = (array.astype(np.float32) for array in low)
    delta = np.zeros_like(values)
    for rank in range(len(down)):
        delta += up[:, rank, None] * down[None, rank]
    return values + delta


def _merged(gguf: GgufSource, tensor: TensorInfo, low: Low | None) -> GgufTensor:
    if len(tensor.shape) == 1:
        return GgufTensor(tensor.name, gguf.vector(tensor))
    packed = gguf.rows(tensor, 0, tensor.shape[0])
    if low is None:
        return GgufTensor(tensor.name, packed, tensor.format)
    if tensor.shape != (low[1].shape[0], low[0].shape[1]):
        raise BadFileError(f"the adapter has other sizes for {tensor.name} than the model", hint=_AGAIN)
    format = tensor.format if tensor.format in FORMATS else "q8_0"
    values = quants.dequantize(packed, tensor.type).astype(np.float32, copy=False)
    return GgufTensor(tensor.name, quantise(merged_matrix(values, low), format), format)


def _hash(tensors: Sequence[GgufTensor]) -> str:
    digest = hashlib.sha256()
    for tensor in sorted(tensors, key=lambda one: one.name):
        digest.update(f"{tensor.name} {tensor.format}\n".encode())
        digest.update(np.ascontiguousarray(tensor.data).tobytes())
    return digest.hexdigest()


def _fits(down: NDArray[Any], up: NDArray[Any]) -> bool:
    halves = down.dtype == up.dtype == np.float16
    sizes = down.ndim == up.ndim == 2 and len(down) == up.shape[1] > 0
    return bool(halves and sizes and np.isfinite(down).all() and np.isfinite(up).all())
