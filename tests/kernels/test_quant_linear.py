"""QuantLinear: right, the same bits in every row, and blind to the number of tokens."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.quant_rows import (
    ACTIVATIONS,
    FORMATS,
    INT_FORMATS,
    SCALAR,
    Runner,
    activated,
    random_packed,
    runner_id,
    runners,
)

COLS = {
    "q4_k": (256, 768, 1536),
    "q5_k": (256, 1536),
    "q6_k": (256, 512, 1536),
    "q2_k": (256, 1536),
    "q3_k": (256, 1536),
    **dict.fromkeys(("tq2_0", "iq4", "iq3x", "iq3s", "iq2", "iq1"), (256, 1536)),
    "nvfp4": (256, 1536),
    "f16": (1, 33, 576),
    "bf16": (7, 576),
    "f32": (5, 576),
}
OUTPUTS = (1, 15, 16, 17, 33, 100)


def shapes(format: str) -> list[tuple[int, int]]:
    cols = COLS.get(format, (32, 64, 96, 576, 1056))
    return [(rows, cols[i % len(cols)]) for i, rows in enumerate(OUTPUTS)] + [(48, c) for c in cols]


def inputs(m: int, cols: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    x = rng.normal(0, 1, (m, cols)).astype(np.float32)
    x[:, rng.integers(0, cols, max(1, cols // 40))] *= 40.0  # outliers, as real activations have
    x[0, : min(32, cols)] = 0.0  # a group of zeros
    return x


@pytest.mark.parametrize("format", INT_FORMATS)
def test_scalar_equals_float64_with_quantised_activations(format: str) -> None:
    for seed, (rows, cols) in enumerate(shapes(format)):
        w, x = random_packed(format, rows, cols, seed), inputs(5, cols, seed)
        q, scale, _ = SCALAR.quantise(x)
        k = q.shape[1]
        rounded = (q.reshape(5, k // 32, 32) * scale[:, :, None].astype(np.float64)).reshape(5, k)[:, :cols]
        expected = rounded @ w.dense.astype(np.float64).T
        size = np.abs(rounded) @ np.abs(w.dense.astype(np.float64)).T
        got = SCALAR.linear(w, x)
        assert np.all(np.abs(got - expected) <= 4e-6 * size + 1e-30), (format, rows, cols, seed)


def test_quantised_activations_stay_within_half_a_step() -> None:
    x = inputs(3, 576, 7)
    q, scale, total = SCALAR.quantise(x)
    back = q[:, :576].reshape(3, 18, 32) * scale[:, :18, None]
    assert np.all(np.abs(back - x.reshape(3, 18, 32)) <= 0.5001 * scale[:, :18, None])
    assert np.array_equal(total, q.reshape(3, -1, 16).sum(axis=2, dtype=np.int32))
    assert not q[:, 576:].any()
    assert not scale[:, 18:].any()


@pytest.mark.parametrize("runner", runners(), ids=runner_id)
@pytest.mark.parametrize("cols", [1, 15, 31, 32, 33, 255, 256, 257, 576])
def test_quantising_has_the_same_bits_in_every_row(runner: Runner, cols: int) -> None:
    x = inputs(4, cols, cols)
    for got, expected in zip(runner.quantise(x), SCALAR.quantise(x), strict=True):
        assert got.tobytes() == expected.tobytes()


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("runner", runners(), ids=runner_id)
def test_every_row_equals_scalar_bit_for_bit(runner: Runner, format: str) -> None:
    for seed, (rows, cols) in enumerate(shapes(format)):
        w = random_packed(format, rows, cols, 100 + seed)
        for m in (1, 2, 3, 7, 8, 9, 16, 17, 33):
            x = inputs(m, cols, seed)
            assert runner.linear(w, x).tobytes() == SCALAR.linear(w, x).tobytes(), (
                format,
                rows,
                cols,
                m,
                seed,
            )


@pytest.mark.parametrize("format", ["q5_0", "q8_0", "q6_k", "q4_k", "q5_k", "q2_k"])
@pytest.mark.parametrize("runner", runners(), ids=runner_id)
def test_blocks_of_many_tokens_equal_scalar_at_their_edges(runner: Runner, format: str) -> None:
    for rows in (16, 29, 48, 64, 75):  # one tile to five
        w = random_packed(format, rows, 768, rows)
        x = inputs(48, 768, rows)
        expected = SCALAR.linear(w, x)
        for m in (23, 24, 25, 31, 32, 48):
            assert runner.linear(w, x[:m]).tobytes() == expected[:m].tobytes(), (rows, m)


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("runner", [SCALAR, *runners()], ids=runner_id)
def test_a_token_does_not_see_its_neighbours(runner: Runner, format: str) -> None:
    cols = COLS.get(format, (576,))[-1]
    w, x = random_packed(format, 40, cols, 3), inputs(16, cols, 5)
    alone = np.concatenate([runner.linear(w, x[i : i + 1]) for i in range(16)])
    for k in range(2, 17):
        assert runner.linear(w, x[:k]).tobytes() == alone[:k].tobytes(), (format, k)


@pytest.mark.parametrize("runner", [SCALAR, *runners()], ids=runner_id)
def test_extreme_quants_do_not_saturate(runner: Runner) -> None:
    for format in INT_FORMATS:
        for fill in (0x00, 0xFF, 0x7F, 0x80):
            w = random_packed(format, 16, 256, 1)
            w.data[:, 64:] = fill  # quants (and integer scales) at their ends; the fp16 scales may become NaN
            for sign in (1.0, -1.0):
                x = np.full((2, 256), sign, dtype=np.float32)
                got, expected = runner.linear(w, x), SCALAR.linear(w, x)
                same = (got.view(np.uint32) == expected.view(np.uint32)) | (
                    np.isnan(got) & np.isnan(expected)
                )
                assert same.all(), (format, fill, sign)


@pytest.mark.parametrize("runner", [SCALAR, *runners()], ids=runner_id)
def test_bias_and_residual_are_plain_additions(runner: Runner) -> None:
    w, x = random_packed("q4_k", 50, 512, 9), inputs(3, 512, 9)
    rng = np.random.default_rng(0)
    bias, residual = rng.normal(size=50).astype(np.float32), rng.normal(size=(3, 50)).astype(np.float32)
    plain = runner.linear(w, x)
    assert np.array_equal(runner.linear(w, x, bias), plain + bias)
    assert np.array_equal(runner.linear(w, x, bias, residual), (plain + bias) + residual)


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("runner", [SCALAR, *runners()], ids=runner_id)
def test_two_terms_have_the_same_bits_in_every_row_and_company(runner: Runner, format: str) -> None:
    for seed, (rows, cols) in enumerate(shapes(format)):
        w, x = random_packed(format, rows, cols, 200 + seed), inputs(9, cols, seed)
        rng = np.random.default_rng(seed)
        bias, residual = (rng.normal(size=s).astype(np.float32) for s in ((rows,), (9, rows)))
        expected = SCALAR.linear(w, x, bias, residual, terms=2)
        for m in (1, 2, 5, 9):
            got = runner.linear(w, x[:m], bias, residual[:m], terms=2)
            assert got.tobytes() == expected[:m].tobytes(), (format, rows, cols, m)


@pytest.mark.parametrize("format", INT_FORMATS)
def test_two_terms_are_a_hundred_times_closer(format: str) -> None:
    cols = COLS.get(format, (576,))[-1]
    w, x = random_packed(format, 100, cols, 4), inputs(8, cols, 6)
    exact = x.astype(np.float64) @ w.dense.astype(np.float64).T
    one, two = (np.abs(SCALAR.linear(w, x, terms=terms) - exact).mean() for terms in (1, 2))
    assert two < one / 100


def test_two_terms_are_the_sum_of_two_quantisations() -> None:
    w, x = random_packed("q5_k", 40, 512, 8), inputs(4, 512, 3)
    q, scale, _ = SCALAR.quantise(x)
    rest = x - (q.reshape(4, -1, 32).astype(np.float32) * scale[:, :, None]).reshape(4, -1)
    total = SCALAR.linear(w, x) + SCALAR.linear(w, np.ascontiguousarray(rest))
    assert np.array_equal(SCALAR.linear(w, x, terms=2), total)


@pytest.mark.parametrize("runner", runners(), ids=runner_id)
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_gated_mlp_equals_scalar_and_its_parts(runner: Runner, activation: str) -> None:
    for m in (1, 2, 16, 40):
        gate, up, x = (
            random_packed("q4_k", 100, 512, 1),
            random_packed("q6_k", 100, 512, 2),
            inputs(m, 512, m),
        )
        got = runner.gated_mlp(gate, up, x, activation)
        assert got.tobytes() == SCALAR.gated_mlp(gate, up, x, activation).tobytes()
        g, u = SCALAR.linear(gate, x).astype(np.float64), SCALAR.linear(up, x).astype(np.float64)
        expected = activated(activation, g, u)
        assert np.allclose(got, expected, rtol=2e-6, atol=1e-6 * np.abs(expected).max())
