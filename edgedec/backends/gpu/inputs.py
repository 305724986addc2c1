"""The buffers that a pass reads beside weights and cache: computed here, written before its dispatches."""

from __future__ import annotations

import base64
import ctypes
import struct
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgedec.core.rows import FloatArray
from edgedec.kernels import library

UNIFORM_BYTES = 32


@dataclass(frozen=True, slots=True)
class GpuPass:
    """The inputs of a pass; see ``Forward.extend``. ``parents``: indices in the pass, -1 for none."""

    tokens: Sequence[int]
    positions: Sequence[int]
    parents: Sequence[int]
    length: int
    """Resident tokens before it."""
    rows: Sequence[int]
    full: bool = False
    temperature: float = 1.0


def uniform(tokens: int, length: int, rows: int, temperature: float = 1.0) -> bytes:
    """Return the struct ``Pass`` of ``kernels/wgsl/pass.wgsl``."""
    return struct.pack("<4If3I", tokens, length, rows, 0, np.float32(1) / np.float32(temperature), 0, 0, 0)


def paths(parents: Sequence[int]) -> NDArray[np.uint32]:
    """Return u32[T, 1 + T]: how many ancestors a token has in the pass, then these and itself, ascending."""
    count = len(parents)
    found = np.zeros((count, 1 + count), np.uint32)
    if all(parent == at - 1 for at, parent in enumerate(parents)):
        found[:, 0] = found[0, 1:] = np.arange(count)
        found[:, 1:] = found[0, 1:]
        return found
    chains: list[list[int]] = []
    for at, parent in enumerate(parents):
        chains.append([*(chains[parent] if parent >= 0 else ()), at])
        found[at, 0] = len(chains[at]) - 1
        found[at, 1 : 1 + len(chains[at])] = chains[at]
    return found


def rotary(positions: Sequence[int], frequencies: str, scale: str | None = None) -> FloatArray:
    """Return RotaryTable of ``positions`` for an inline tensor: cosines, then sines. Computed in double.

    ``scale``: an inline tensor that multiplies each row.
    """
    inverse = np.frombuffer(base64.b64decode(frequencies), np.float32)
    at = np.asarray(positions, np.int64)
    table = np.empty((len(at), 2 * len(inverse)), np.float32)
    pointers = [ctypes.c_void_p(array.ctypes.data) for array in (at, inverse, table)]
    sizes = [ctypes.c_size_t(size) for size in (0, len(at), table.shape[1])]
    library.load().edgedec_rotary_table(b"scalar", *pointers, *sizes)
    if scale is not None:
        table *= np.frombuffer(base64.b64decode(scale), np.float32)
    return table
