"""Define how the matrices of an expert lie together; ``experts/experts.h`` has the same in C++."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from edgedec.kernels.packing.formats import FORMATS

PART_ALIGNMENT = 64
"""Bytes at a multiple of which each matrix begins."""
EXPERT_ALIGNMENT = 4096
"""Bytes at a multiple of which an expert begins, so that a disk can be read past the system's cache."""


class ExpertPlaces(NamedTuple):
    """Offsets in an expert of its matrices, the end of the last one, the biases, and its size, all in bytes.

    ``biases`` are those of gate, up and down, one behind the other; there may be none.
    """

    gate: int
    up: int
    down: int
    end: int
    biases: int
    stride: int


def expert_places(
    formats: tuple[str, str, str], width: int, cols: int, *, biased: bool = False
) -> ExpertPlaces:
    """Return where gate and up [width, cols] and down [cols, width] lie, packed in ``formats``."""
    shapes = ((width, cols), (width, cols), (cols, width))
    sizes = [_bytes(format, *shape) for format, shape in zip(formats, shapes, strict=True)]
    up = _aligned(sizes[0], PART_ALIGNMENT)
    down = _aligned(up + sizes[1], PART_ALIGNMENT)
    end = down + sizes[2]
    biases = _aligned(end, PART_ALIGNMENT)
    whole = biases + 4 * (2 * width + cols) if biased else end
    return ExpertPlaces(0, up, down, end, biases, _aligned(whole, EXPERT_ALIGNMENT))


def checksum(expert: bytes) -> int:
    """Return a signed 64-bit integer by which a reader of a disk knows an expert's bytes again.

    After Fletcher (1982), over n little-endian words of 64 bits: the sum of ``(2 (n - i) - 1) * w[i]``. These
    factors are odd, so every change of one word changes the sum.
    """
    words = np.frombuffer(expert, dtype="<u8")
    factors = np.arange(2 * len(words) - 1, 0, -2, dtype=np.uint64)
    return int((words * factors).sum(dtype=np.uint64).view(np.int64))


def _bytes(format: str, rows: int, cols: int) -> int:
    tiles, of_a_tile = FORMATS[format].packed_shape(rows, cols)
    return tiles * of_a_tile


def _aligned(size: int, to: int) -> int:
    return -(-size // to) * to
