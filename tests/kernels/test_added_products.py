"""Byte products that are multiplied into floats: every row rounds each sum once, as NumPy does."""

from __future__ import annotations

import numpy as np
import pytest

from tests.fixtures.nightly import every
from tests.kernels.float_rows import F32, Array, same_bits
from tests.kernels.int8_attention import fused
from tests.kernels.quant_rows import SCALAR, Runner, runner_id, runners
from tests.kernels.test_byte_products import (
    MOST_ROWS,
    MOST_VECTORS,
    Bytes,
    Shape,
    apart,
    call,
    shape,
    signed,
    up,
)

GROUP = 32
QUERY_GROUP = np.dtype([("bytes", np.int8, GROUP), ("scale", np.float32), ("sum", np.int32)])
WIDTHS = (16, 32, 48, 64)
ADDS = ("avx512_vnni", "amx")
"""Rows that multiply into floats; the others leave that to attention."""
ADDERS = pytest.mark.parametrize("runner", [one for one in runners() if one.row in ADDS], ids=runner_id)
SHAPES = 250
SEEDS = pytest.mark.parametrize("seed", every(40, range(40)))
EDGES = [
    Shape(count, rows, width, width, up(rows, 16))
    for width in WIDTHS
    for count in (1, 2, 3, 4, 5, 6, 7, 9, MOST_VECTORS - 1, MOST_VECTORS)
    for rows in (1, 3, 4, 5, 15, 16, 17, 31, 32, 33, 47, 48, 49, 63, 64)
]


def scales(rng: np.random.Generator, *size: int) -> F32:
    """Scales of any size, some of them 0."""
    found = rng.uniform(1, 2, size) * 10.0 ** rng.integers(-30, 4, size)
    return np.where(rng.random(size) < 0.1, 0, found).astype(np.float32)


def queries(rng: np.random.Generator, made: Shape) -> tuple[Array, Bytes]:
    """Groups of queries; and their elements, side by side."""
    groups = -(-made.width // GROUP)
    elements = np.zeros((made.count, groups * GROUP), np.int8)
    elements[:, : made.width] = signed(rng, made.count, made.width)
    found = np.zeros((made.count, groups), QUERY_GROUP)
    found["bytes"] = elements.reshape(made.count, groups, GROUP)
    found["scale"] = scales(rng, made.count, groups)
    found["sum"] = found["bytes"].sum(axis=-1, dtype=np.int32)
    return found, elements


def check_scores(runner: Runner, made: Shape, seed: int) -> None:
    rng = np.random.default_rng(seed)
    (flat, keys), (groups, elements) = apart(rng, made), queries(rng, made)
    # One after the other, as the keys lie: what is behind the last sixteen is not there.
    of_keys = scales(rng, (groups.shape[1] - 1) * MOST_ROWS + up(made.rows, 16))
    begun = bool(rng.integers(0, 2))
    got = rng.standard_normal((made.count, made.sums_stride)).astype(np.float32)
    expected = got.copy()
    total = got[:, : made.rows] if begun else np.zeros((made.count, made.rows), np.float32)
    for g in range(groups.shape[1]):
        part = slice(g * GROUP, min((g + 1) * GROUP, made.width))
        sums = elements[:, part].astype(np.int32) @ keys[:, part].astype(np.int32).T
        both = of_keys[g * MOST_ROWS :][: made.rows] * groups["scale"][:, g : g + 1]
        total = fused(sums.astype(np.float32), both, total)
    expected[:, : made.rows] = total
    sizes = (made.stride, made.rows, made.width)
    call(
        runner,
        "edgedec_byte_add_scores",
        *(groups, made.count, flat, *sizes, of_keys, int(begun), got, made.sums_stride),
    )
    assert same_bits(got, expected), made


def check_values(runner: Runner, made: Shape, seed: int) -> None:
    rng = np.random.default_rng(seed)
    flat, rows = apart(rng, made)
    weights, factors = rng.integers(0, 128, (made.count, MOST_ROWS)).astype(np.uint8), scales(rng, made.count)
    read = (made.count - 1) * MOST_ROWS + up(made.rows, 4)
    got = rng.standard_normal((made.count, made.width + int(rng.choice((0, 16))))).astype(np.float32)
    expected = got.copy()
    sums = weights[:, : made.rows].astype(np.int32) @ rows.astype(np.int32)
    expected[:, : made.width] = fused(sums.astype(np.float32), factors[:, None], got[:, : made.width])
    sizes = (made.stride, made.rows, made.width)
    sent = (weights.ravel()[:read].copy(), factors, made.count, flat, *sizes, got, got.shape[1])
    call(runner, "edgedec_byte_add_values", *sent)
    assert same_bits(got, expected), made


@ADDERS
@SEEDS
def test_sums_are_added_as_floats(runner: Runner, seed: int) -> None:
    rng = np.random.default_rng(seed)
    for number in range(SHAPES):
        check_scores(runner, shape(rng, WIDTHS), seed * SHAPES + number)
        check_values(runner, shape(rng, WIDTHS), seed * SHAPES + number)


@ADDERS
def test_sums_at_the_edges_of_tiles(runner: Runner) -> None:
    for seed, made in enumerate(EDGES):
        check_scores(runner, made, seed)
        check_values(runner, made, seed)


def test_other_rows_leave_it_to_attention_and_wrong_sizes_are_refused() -> None:
    data, floats = np.zeros(64 * 64, np.int8), np.zeros((MOST_VECTORS, 64), np.float32)

    def status(runner: Runner, count: int = 1, rows: int = 1, width: int = 64, stride: int = 64) -> set[int]:
        with pytest.raises(AssertionError) as scores:
            call(
                runner,
                "edgedec_byte_add_scores",
                *(data, count, data, 64, rows, width, floats, 0, floats, stride),
            )
        with pytest.raises(AssertionError) as values:
            call(
                runner,
                "edgedec_byte_add_values",
                *(data, floats, count, data, 64, rows, width, floats, stride),
            )
        return {int(str(one.value).split("returned ")[1].split()[0]) for one in (scores, values)}

    for runner in (SCALAR, *runners()):
        if runner.row not in ADDS:
            assert status(runner) == {3}, runner
    for wrong in (
        {"count": 0},
        {"count": MOST_VECTORS + 1},
        {"rows": 0},
        {"rows": 65},
        {"width": 24},
        {"width": 80},
    ):
        assert status(SCALAR, **wrong) == {2}, wrong
    assert status(SCALAR, stride=0) == {2}
    assert status(Runner("none")) == {1}
