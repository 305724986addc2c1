"""Matrices of floats: the order of their sums, in every op, beside quantised ones."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from edgedec.kernels import library
from tests.kernels.quant_rows import (
    FLOAT_FORMATS,
    SCALAR,
    Runner,
    pointer,
    random_packed,
    runner_id,
    runners,
)

EVERY_ROW = pytest.mark.parametrize("runner", [SCALAR, *runners()], ids=runner_id)
EVERY_FORMAT = pytest.mark.parametrize("format", FLOAT_FORMATS)


def inputs(m: int, cols: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 1, (m, cols)).astype(np.float32)


@EVERY_ROW
def test_inputs_are_added_in_ascending_order_with_one_rounding_each(runner: Runner) -> None:
    """float64 holds each step of fma exactly when x and w have few bits, so rounding it is the fma."""
    rng = np.random.default_rng(0)
    w = random_packed("bf16", 33, 100, 1)
    x = (rng.integers(-128, 128, (13, 100)) / 64).astype(np.float32)
    acc = np.zeros((13, 33), dtype=np.float32)
    dense = np.where(np.abs(w.dense) < 1e-20, 0, w.dense).astype(np.float64)
    for k in range(100):
        acc = (x[:, k : k + 1].astype(np.float64) * dense[:, k] + acc).astype(np.float32)
    assert np.array_equal(runner.linear(w, x), acc)


@EVERY_FORMAT
def test_scalar_is_near_float64(format: str) -> None:
    w, x = random_packed(format, 50, 900, 2), inputs(4, 900, 3)
    exact = x.astype(np.float64) @ w.dense.astype(np.float64).T
    size = np.abs(x).astype(np.float64) @ np.abs(w.dense).astype(np.float64).T
    assert np.all(np.abs(SCALAR.linear(w, x) - exact) <= 2e-6 * size)


@EVERY_FORMAT
@EVERY_ROW
def test_a_second_term_changes_nothing(runner: Runner, format: str) -> None:
    w, x = random_packed(format, 40, 576, 4), inputs(3, 576, 5)
    assert runner.linear(w, x, terms=2).tobytes() == runner.linear(w, x).tobytes()


@EVERY_FORMAT
@EVERY_ROW
def test_a_head_is_not_refined(runner: Runner, format: str) -> None:
    w, x = random_packed(format, 2100, 70, 6), inputs(18, 70, 7)
    plain, expected = runner.head(w, x, logits=True), SCALAR.head(w, x, logits=True)
    refined = runner.head(w, x, logits=True, refined=True)
    assert all(plain[name].tobytes() == refined[name].tobytes() for name in plain)
    assert all(plain[name].tobytes() == expected[name].tobytes() for name in plain)
    assert plain["logits"].tobytes() == SCALAR.linear(w, x).tobytes()
    assert np.array_equal(plain["values"], -np.sort(-plain["logits"], axis=1)[:, :64])


@EVERY_FORMAT
@EVERY_ROW
def test_a_subset_of_a_head(runner: Runner, format: str) -> None:
    w, x = random_packed(format, 500, 64, 8), inputs(2, 64, 9)
    keep = np.arange(3, 500, 7, dtype=np.int64)
    out = runner.head(w, x, k=8, keep=keep, logits=True, refined=True)
    whole = SCALAR.linear(w, x)
    assert np.array_equal(out["logits"][:, keep], whole[:, keep])
    best = keep[np.argsort(-whole[:, keep], axis=1)[:, :8]]
    assert np.array_equal(out["ids"], best)


@EVERY_ROW
@pytest.mark.parametrize("formats", [("f16", "f16"), ("q8_0", "bf16"), ("f32", "q4_0")])
def test_a_gate_of_floats_beside_integers(runner: Runner, formats: tuple[str, str]) -> None:
    gate, up = (random_packed(format, 70, 96, i) for i, format in enumerate(formats))
    for m in (1, 5, 20):
        x = inputs(m, 96, m)
        got = runner.gated_mlp(gate, up, x)
        assert got.tobytes() == SCALAR.gated_mlp(gate, up, x).tobytes()
        g, u = SCALAR.linear(gate, x).astype(np.float64), SCALAR.linear(up, x)
        assert np.allclose(got, g / (1 + np.exp(-g)) * u, rtol=2e-6, atol=1e-7)


@EVERY_FORMAT
def test_an_embedding_is_the_numbers_times_the_scale(format: str) -> None:
    w, ids = random_packed(format, 37, 50, 10), np.array([0, 36, 16, 5, 36], dtype=np.int64)
    out = np.empty((5, 50), dtype=np.float32)
    call = library.load().edgedec_quant_embedding
    scale = ctypes.c_float(1.5)
    assert call(format.encode(), pointer(w.data), 37, 50, pointer(ids), 5, scale, pointer(out)) == 0
    assert np.array_equal(out, w.dense[ids] * np.float32(1.5))
