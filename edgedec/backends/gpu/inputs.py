"""The buffers that a pass reads beside weights and cache: computed here, written before its dispatches."""

from __future__ import annotations

import base64
import ctypes
import struct
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from edgedec.backends.gpu.program import STEP_WORDS
from edgedec.core.errors import BackendError
from edgedec.core.quick_dataclass import dataclass
from edgedec.core.rows import FloatArray, Keep
from edgedec.kernels import library
from edgedec.kernels.packing.formats import TILE

UNIFORM_BYTES = 32
_NOT_KEPT = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class Route:
    """The part of a program for drafting that a pass runs, between its exits.

    ``below``: layers that tokens go through first. 0: none. ``above``: layers behind which they go on to the
    head. 0: they do not. They go on with the rows that are kept behind the layer ``source``.
    """

    below: int
    above: int
    source: int


@dataclass(frozen=True, slots=True, eq=False)
class TrimmedIds:
    """The ids of a trimmed head, and ``tiles`` u32[tiles, 17] of ``kernels/quant_linear/kept.wgsl``."""

    ids: Keep
    tiles: NDArray[np.uint32]

    @classmethod
    def of(cls, ids: Keep) -> TrimmedIds:
        """Find the tiles of ``ids``, which ascend."""
        numbers, at = np.unique(ids // TILE, return_inverse=True)
        tiles = np.full((len(numbers), 1 + TILE), _NOT_KEPT, np.uint32)
        tiles[:, 0] = numbers
        tiles[at, 1 + ids % TILE] = np.arange(len(ids))
        return cls(ids, tiles)


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
    first: int = 0
    """Tokens before ``tokens`` that have positions and parents too, and whose slots are filled already."""
    route: Route | None = None
    """None: the whole program."""
    keep: TrimmedIds | None = None
    """A trimmed head; None: the whole one."""
    taps: tuple[int, ...] = ()
    """Layers whose rows are kept behind those of the ``first`` tokens, ascending."""
    behind: int = 0
    """Resident tokens that recurrent states do not cover."""


def uniform(fed: GpuPass, rows: int) -> bytes:
    """Return the struct ``Pass`` of ``kernels/wgsl/pass.wgsl`` for a pass and ``rows`` rows of the head."""
    inverse = np.float32(1) / np.float32(fed.temperature)
    kept = len(fed.keep.ids) if fed.keep else 0
    return struct.pack("<4If3I", len(fed.tokens), fed.length, rows, 0, inverse, fed.first, kept, fed.behind)


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


def steps(fed: GpuPass, taps: int) -> NDArray[np.uint32]:
    """Return the steps of recurrent layers whose convolution has ``taps``: u32[steps, 12]."""
    parents = np.asarray(fed.parents, np.int64)
    found = np.empty((fed.behind + len(parents), STEP_WORDS), np.uint32)
    sizes = [ctypes.c_size_t(size) for size in (len(parents), fed.length, fed.length - fed.behind, taps)]
    pointers = [ctypes.c_void_p(array.ctypes.data) for array in (parents, found)]
    count = library.load().edgedec_recurrent_steps(pointers[0], *sizes, pointers[1])
    if count != len(found):
        raise BackendError("the steps of recurrent layers cannot be listed")
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
