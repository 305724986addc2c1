"""Byte products: every row sums exactly, on this machine, on a model of other instructions, and on Arm."""

from __future__ import annotations

from ctypes import c_size_t
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pytest

from tests.fixtures.nightly import every
from tests.kernels.arm import ArmLibrary, ArmRunner, needs_arm
from tests.kernels.float_rows import Array, pointer
from tests.kernels.quant_rows import SCALAR, Runner, runner_id, runners

Bytes = npt.NDArray[np.int8]
Ints = npt.NDArray[np.int32]
MOST_VECTORS, MOST_ROWS, MOST_WIDTH = 48, 64, 64
SHAPES = 250
"""Shapes of a seed; forty seeds have 10,000."""
SEEDS = pytest.mark.parametrize("seed", every(40, range(40)))
ARM_ROWS = ("neon_i8mm", "neon_dotprod", "scalar")


@dataclass(frozen=True)
class Shape:
    """Queries or rows of weights, and rows of keys or values: how many, how wide, how far apart."""

    count: int
    rows: int
    width: int
    stride: int
    sums_stride: int


def up(n: int, multiple: int) -> int:
    return -(-n // multiple) * multiple


def shape(rng: np.random.Generator, widths: tuple[int, ...]) -> Shape:
    count, rows = int(rng.integers(1, MOST_VECTORS + 1)), int(rng.integers(1, MOST_ROWS + 1))
    width = int(rng.choice(widths))
    stride, room = max(width, int(rng.integers(36, 601))), int(rng.choice((0, 16, 48)))
    return Shape(count, rows, width, stride, up(rows, 16) + room)


def signed(rng: np.random.Generator, *size: int) -> Bytes:
    """Bytes in -127 .. 127: any, often the extremes, or one of these everywhere."""
    kind = int(rng.integers(0, 4))
    if kind == 0:
        return np.full(size, rng.choice((-127, 127)), np.int8)
    if kind == 1:
        return rng.choice(np.array([-127, 0, 127], np.int8), size)
    return rng.integers(-127, 128, size).astype(np.int8)


def apart(rng: np.random.Generator, made: Shape) -> tuple[Bytes, Bytes]:
    """Rows as they lie in memory, anything between them; and side by side."""
    flat = rng.integers(-128, 128, (made.rows - 1) * made.stride + made.width).astype(np.int8)
    rows = signed(rng, made.rows, made.width)
    for at, row in enumerate(rows):
        flat[at * made.stride : at * made.stride + made.width] = row
    return flat, rows


def call(runner: Runner, function: str, *arguments: Array | int) -> None:
    sent = [c_size_t(value) if isinstance(value, int) else pointer(value) for value in arguments]
    runner.call(function, runner.row.encode(), *sent)


def scores(runner: Runner, made: Shape, seed: int) -> tuple[Ints, Ints, Ints]:
    """Sums of a row, those by NumPy, and the memory behind those of each query, which holds sevens."""
    rng = np.random.default_rng(seed)
    (flat, keys), queries = apart(rng, made), signed(rng, made.count, made.width)
    sums = np.full((made.count, made.sums_stride), 7, np.int32)
    sizes = (made.stride, made.rows, made.width)
    call(runner, "edgedec_byte_scores", queries, made.count, flat, *sizes, sums, made.sums_stride)
    expected = queries.astype(np.int32) @ keys.astype(np.int32).T
    return sums[:, : made.rows], expected, sums[:, up(made.rows, 16) :]


def values(runner: Runner, made: Shape, seed: int) -> tuple[Ints, Ints]:
    """Sums of a row, which it adds to others, and those by NumPy."""
    rng = np.random.default_rng(seed)
    flat, rows = apart(rng, made)
    weights = rng.integers(0, 128, (made.count, MOST_ROWS)).astype(np.uint8)
    if rng.integers(0, 2):
        weights = rng.choice(np.array([0, 127], np.uint8), weights.shape)
    before = rng.integers(-(2**20), 2**20, (made.count, MOST_WIDTH)).astype(np.int32)
    expected, sums = before.copy(), before.copy()
    expected[:, : made.width] += weights[:, : made.rows].astype(np.int32) @ rows.astype(np.int32)
    read = (made.count - 1) * MOST_ROWS + up(made.rows, 4)  # weights past the last value's: three at most
    sizes = (made.stride, made.rows, made.width)
    call(runner, "edgedec_byte_values", weights.ravel()[:read].copy(), made.count, flat, *sizes, sums)
    return sums, expected


def check(runner: Runner, seed: int, shapes: int) -> None:
    rng = np.random.default_rng(seed)
    for number in range(shapes):
        made = shape(rng, (16, 32))
        sums, expected, behind = scores(runner, made, seed * shapes + number)
        assert np.array_equal(sums, expected), made
        assert np.all(behind == 7), made
        made = shape(rng, (16, 32, 48, 64))
        sums, expected = values(runner, made, seed * shapes + number)
        assert np.array_equal(sums, expected), made


@SEEDS
@pytest.mark.parametrize("runner", [SCALAR, *runners()], ids=runner_id)
def test_sums_are_exact(runner: Runner, seed: int) -> None:
    check(runner, seed, SHAPES)


@needs_arm
@SEEDS
@pytest.mark.parametrize("row", ARM_ROWS)
def test_sums_are_exact_on_arm(arm_library: ArmLibrary, row: str, seed: int) -> None:
    check(ArmRunner(row, library=arm_library), seed, SHAPES)


@pytest.mark.parametrize("runner", [SCALAR, *runners()], ids=runner_id)
def test_the_greatest_sums_do_not_saturate(runner: Runner) -> None:
    for query in (-127, 127):
        for key in (-127, 127):
            queries, rows = np.full((5, 32), query, np.int8), np.full((64, 32), key, np.int8)
            sums = np.zeros((5, 64), np.int32)
            call(runner, "edgedec_byte_scores", queries, 5, rows, 32, 64, 32, sums, 64)
            assert np.all(sums == 32 * query * key)
            weights, sums = np.full((5, 64), 127, np.uint8), np.zeros((5, 64), np.int32)
            call(runner, "edgedec_byte_values", weights, 5, rows, 32, 64, 32, sums)
            assert np.all(sums[:, :32] == 64 * 127 * key)
            assert not sums[:, 32:].any()


def test_wrong_sizes_are_refused() -> None:
    data, sums = np.zeros(64 * 64, np.int8), np.zeros((MOST_VECTORS, 64), np.int32)

    def refused(status: int, row: str, function: str, *arguments: Array | int) -> None:
        with pytest.raises(AssertionError, match=f"returned {status}"):
            call(Runner(row), function, *arguments)

    wrong = (
        (0, 1, 32, 64),
        (MOST_VECTORS + 1, 1, 32, 64),
        (1, 0, 32, 64),
        (1, 65, 32, 80),
        (1, 1, 48, 64),
        (1, 17, 32, 31),
    )
    for count, rows, width, stride in wrong:
        refused(2, "scalar", "edgedec_byte_scores", data, count, data, 64, rows, width, sums, stride)
    for width in (0, 24, 80):
        refused(2, "scalar", "edgedec_byte_values", data, 1, data, 64, 1, width, sums)
    refused(1, "none", "edgedec_byte_values", data, 1, data, 64, 1, 16, sums)
