"""Logits with and without a text combined: the definition, in every row, and the head's results of them."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from edgedec.kernels import library
from tests.kernels.float_rows import F32, Array, pointer, same_bits
from tests.kernels.quant_rows import SCALAR, Runner, runner_id, runners
from tests.kernels.test_head_topk import VOCABULARIES, check

NAMES = ("values", "ids", "logsumexp", "entropy")
TENTH = np.float32(np.log(10))


def contrast(
    runner: Runner, a: F32, b: F32, weight: float, temperature: float = 1.0, k: int = 64
) -> dict[str, Array]:
    """Results of the kernel, with the combined rows."""
    r, rows = a.shape
    out: dict[str, Array] = {
        "logits": a.copy(),
        "values": np.empty((r, k), np.float32),
        "ids": np.empty((r, k), np.int32),
        "logsumexp": np.empty(r, np.float32),
        "entropy": np.empty(r, np.float32),
    }
    scales = ctypes.c_float(weight), ctypes.c_float(temperature)
    given = pointer(out["logits"]), pointer(b), r, rows, k, *scales
    runner.call("edgedec_head_contrast", runner.row.encode(), *given, *(pointer(out[name]) for name in NAMES))
    return out


def defined(a: F32, b: F32, weight: float) -> F32:
    """The definition, row by row and entry by entry, in the order of its float operations."""
    found = a.copy()
    for row, (with_text, without) in enumerate(zip(a, b, strict=True)):
        best = int(np.argmax(with_text))
        gain = with_text - without
        implausible = with_text < with_text[best] - TENTH
        gain = np.where(implausible & (gain > gain[best]), gain[best], gain)
        found[row] = with_text + np.float32(weight) * np.where(np.isfinite(gain), gain, np.float32(0))
    return found


def logits(r: int, rows: int, seed: int) -> tuple[F32, F32]:
    rng = np.random.default_rng(seed)
    both = rng.normal(0, 4, (2, r, rows)).astype(np.float32)
    return both[0], both[0] / 2 + both[1]


@pytest.mark.parametrize("temperature", [1.0, 0.6])
@pytest.mark.parametrize("rows", VOCABULARIES)
@pytest.mark.parametrize("runner", [SCALAR, *runners()], ids=runner_id)
def test_it_is_the_definition_and_the_head_reduces_it(runner: Runner, rows: int, temperature: float) -> None:
    a, b = logits(3, rows, rows)
    out = contrast(runner, a, b, 1.0, temperature)
    assert same_bits(out["logits"], defined(a, b, 1.0))
    check(out, out["logits"], 64, temperature)


@pytest.mark.parametrize("runner", runners(), ids=runner_id)
def test_every_row_equals_scalar_bit_for_bit(runner: Runner) -> None:
    a, b = logits(4, 5000, 2)
    for weight in (0.5, 1.0, 3.0):
        expected, got = (contrast(of, a, b, weight) for of in (SCALAR, runner))
        assert all(same_bits(got[name], expected[name]) for name in expected)


def test_a_row_does_not_see_its_neighbours() -> None:
    a, b = logits(5, 3000, 3)
    together = contrast(SCALAR, a, b, 1.0)
    for at in range(5):
        alone = contrast(SCALAR, a[at : at + 1], b[at : at + 1], 1.0)
        assert all(same_bits(alone[name], together[name][at : at + 1]) for name in alone)


def test_an_implausible_word_comes_no_nearer_to_the_best_one() -> None:
    a = np.array([[5.0, 4.9, 1.0, -2.0]], np.float32)
    b = np.array([[6.0, 1.0, -9.0, -3.0]], np.float32)
    out = contrast(SCALAR, a, b, 1.0, k=4)["logits"][0]
    assert out.tolist() == pytest.approx([4.0, 8.8, 0.0, -3.0], abs=1e-6)
    assert np.argmax(a[0] + (a[0] - b[0])) == 2, "by the plain rule the third word would be drawn"


def test_equal_rows_stay_as_they_are() -> None:
    a, _ = logits(2, 2000, 4)
    assert same_bits(contrast(SCALAR, a, a.copy(), 2.0)["logits"], a)


def test_entries_that_neither_has_stay_out_and_are_no_nan() -> None:
    a, b = logits(1, 1500, 5)
    a[0, 100:200] = b[0, 100:200] = -np.inf
    a[0, 300], b[0, 300] = 20, -np.inf
    out = contrast(SCALAR, a, b, 1.0)
    assert np.all(out["logits"][0, 100:200] == -np.inf)
    assert out["logits"][0, 300] == a[0, 300]
    check(out, out["logits"], 64)


def test_numbers_that_are_none_show() -> None:
    a, b = logits(1, 1500, 6)
    a[0, 7] = np.nan
    assert np.isnan(contrast(SCALAR, a, b, 1.0)["logsumexp"][0])


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"name": b"no-such-row"}, 1),
        ({"rows": 0}, 2),
        ({"k": 0}, 2),
        ({"k": 1025}, 2),
        ({"weight": -1.0}, 2),
        ({"weight": float("nan")}, 2),
        ({"weight": float("inf")}, 2),
        ({"temperature": 0.0}, 2),
        ({"temperature": float("nan")}, 2),
    ],
)
def test_what_cannot_be_is_refused(change: dict[str, object], status: int) -> None:
    given: dict[str, object] = {
        "name": b"scalar",
        "rows": 4,
        "k": 2,
        "weight": 1.0,
        "temperature": 1.0,
    } | change
    a, b = logits(1, 4, 7)
    room = np.empty(2, np.float32)
    found = library.load().edgedec_head_contrast(
        given["name"], pointer(a), pointer(b), 1, given["rows"], given["k"], ctypes.c_float(given["weight"]),  # type: ignore[arg-type]
        ctypes.c_float(given["temperature"]), *(pointer(room) for _ in NAMES),  # type: ignore[arg-type]
    )  # fmt: skip
    assert found == status
