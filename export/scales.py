"""Scales and minima of groups of 32 weights: what an adapter changes, and training learns."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from edgedec.core.quick_dataclass import dataclass
from edgedec.export.calibration.search import quantise
from edgedec.export.gguf_header import TensorInfo
from edgedec.kernels.packing.formats import FORMATS

GROUPED = ("q4_0", "q4_1", "q5_0", "q5_1", "q8_0")
"""Formats in which each group has an fp16 scale of its own."""
PLAIN = "q4_1"
"""The format that others are quantised to."""
STRETCH, MOVE = 512, 64
"""Units of a change: parts of a group's scale, and of the step from one quant to the next."""

F32 = NDArray[np.float32]
I8 = NDArray[np.int8]
U8 = NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Change:
    """The change of a matrix: ``stretch`` i8[N, K/32], and ``move`` likewise where it has minima."""

    stretch: I8
    move: I8 | None


@dataclass(frozen=True, slots=True)
class Scales:
    """Scales of the groups of a matrix, and the values in their middle, f32[N, K/32].

    ``has_min``: groups can be moved.
    """

    scale: F32
    middle: F32
    has_min: bool


def grouped(tensor: TensorInfo, packed: U8) -> tuple[str, U8]:
    """Return a format of ``GROUPED`` and a matrix's rows in it: as they are, or quantised to ``PLAIN``."""
    if tensor.format in GROUPED:
        return tensor.format, packed
    return PLAIN, quantise(tensor.values(packed), PLAIN)


def scales_of(format: str, packed: U8) -> Scales:
    """Return the scales of rows u8[N, bytes] in a format of ``GROUPED``."""
    scale = _floats(_blocks(format, packed), 0)
    if not FORMATS[format].has_min:
        return Scales(scale, np.zeros_like(scale), False)
    minimum = _floats(_blocks(format, packed), 1)
    return Scales(scale, minimum + scale * np.float32(_middle(format)), True)


def changed(format: str, packed: U8, change: Change) -> U8:
    """Return rows u8[N, bytes] with other scales and minima. Raises ValueError for a change of other sizes.

    All operations are single ones in float32, so each machine gets the same bits.
    """
    blocks = _blocks(format, packed).copy()
    if change.stretch.shape != blocks.shape[:2] or (change.move is not None) != FORMATS[format].has_min:
        raise ValueError("a change of other sizes")
    scale, stretch = _floats(blocks, 0), change.stretch.astype(np.float32) / np.float32(STRETCH)
    if change.move is not None:
        steps = change.move.astype(np.float32) / np.float32(MOVE) - np.float32(_middle(format)) * stretch
        blocks[..., 2:4] = _halves(_floats(blocks, 1) + scale * steps)
    blocks[..., :2] = _halves(scale * (np.float32(1) + stretch))
    return blocks.reshape(packed.shape)


def _middle(format: str) -> float:
    """Return half of the largest quant."""
    return ((1 << FORMATS[format].bits) - 1) / 2


def _blocks(format: str, packed: U8) -> U8:
    """Return blocks u8[N, K/32, bytes], which begin with an fp16 scale; a minimum comes next."""
    return packed.reshape(len(packed), -1, FORMATS[format].block_bytes)


def _floats(blocks: U8, place: int) -> F32:
    """Return the numbers f32[N, K/32] at the begin of blocks: the first is the scale."""
    fields = np.ascontiguousarray(blocks[..., 2 * place : 2 * place + 2])
    return fields.view(np.float16)[..., 0].astype(np.float32)


def _halves(values: F32) -> U8:
    top = np.float32(np.finfo(np.float16).max)
    return np.clip(values, -top, top).astype(np.float16)[..., None].view(np.uint8)
