"""TreeAttention over int8 keys and values: every row has the bits of the definition in NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from tests.fixtures.nightly import every
from tests.kernels.attention import F64, Model, bits, exact, reference, run
from tests.kernels.float_rows import F32, byte_rows, same_bits
from tests.kernels.test_rings import ring_of
from tests.kernels.test_tree_attention import CASES, random_tree

NEAR = 0.018
"""Most error of outputs, relative to their size."""
SPLITS = [None, (1, 0, 0), (1, 16, 32), (2, 5, 64), (3, 48, 48), (3, 1, 16)]
EVERY_ROW = pytest.mark.parametrize("row", byte_rows())


def check(model: Model, parents: Sequence[int], length: int, rows: Sequence[str]) -> None:
    """One pass against the definition: outputs, and the keys and values in the cache, to the bit."""
    tokens, first = model.tokens(len(parents)), None
    for row in rows:
        cache = model.cache(length, length + len(parents) + 2)
        out = run(row, model, tokens, parents, cache, length)
        if first is None:
            first = out, cache
            assert same_bits(out, exact(model, tokens, parents, cache, length)[0])
        assert same_bits(out, first[0]), row
        assert same_bits(bits(cache), bits(first[1])), row


@pytest.mark.parametrize("case", CASES)
def test_every_row_has_the_bits_of_the_definition(case: str) -> None:
    model, parents, length = CASES[case]
    check(replace(model, int8=True), parents, length, byte_rows())


def generated(seed: int) -> tuple[Model, list[int], int, tuple[int, int, int] | None]:
    """A pass of any shape: a model, parents, resident tokens, and a split."""
    rng = np.random.default_rng(seed)
    kv_heads, count = int(rng.integers(1, 4)), int(rng.integers(1, 20))
    model = Model(
        heads=kv_heads * int(rng.integers(1, 9)),
        kv_heads=kv_heads,
        dim=int(rng.choice([64, 128, 64, 128, 16, 48, 80, 96, 112, 256])),
        window=int(rng.integers(1, 150)) if rng.random() < 0.4 else 0,
        norms=bool(rng.random() < 0.3),
        softcap=1.5 if rng.random() < 0.2 else 0.0,
        sinks=bool(rng.random() < 0.2),
        seed=seed,
        int8=True,
    )
    split = SPLITS[int(rng.integers(len(SPLITS)))]
    return model, random_tree(seed, count), int(rng.integers(0, 70 if seed % 2 else 260)), split


def check_generated(seed: int) -> None:
    """Every row, however it shares out the pass, and in a ring where the model's window allows one."""
    model, parents, length, split = generated(seed)
    count = len(parents)
    tokens, whole = model.tokens(count), model.cache(length, length + count)
    before = whole.copy()
    expected = run("scalar", model, tokens, parents, whole, length)
    if seed % 50 == 0:
        assert same_bits(expected, exact(model, tokens, parents, whole, length)[0]), seed
    for row in byte_rows():
        cache = before.copy()
        assert same_bits(run(row, model, tokens, parents, cache, length, split), expected), (seed, row)
        assert same_bits(bits(cache), bits(whole)), (seed, row)
        if model.window:
            ring = ring_of(before, length, model.window - 1 + count, model.window)
            out = run(row, replace(model, ring=True), tokens, parents, ring, length)
            assert same_bits(out, expected), (seed, row)


@pytest.mark.parametrize("part", every(50, range(100)))
def test_rows_have_the_same_bits_for_any_shape(part: int) -> None:
    for seed in range(100 * part, 100 * (part + 1)):
        check_generated(seed)


def unrounded(model: Model, tokens: F32, parents: Sequence[int], length: int) -> F64:
    """Attention in float64 over keys and values that were not rounded."""
    count, plain = len(parents), replace(model, int8=False)
    cache = np.zeros((2, model.kv_heads, length + count, model.dim))
    cache[:, :, :length] = plain.filling(length)
    _, keys, values = reference(plain, tokens, parents, cache, length)
    cache[:, :, length:] = np.stack([keys, values]).transpose(0, 2, 1, 3)
    return reference(plain, tokens, parents, cache, length)[0]


@pytest.mark.parametrize("length", [20, 700])
@pytest.mark.parametrize("dim", [16, 64, 80, 128, 256])
def test_outputs_are_near_those_over_unrounded_keys_and_values(dim: int, length: int) -> None:
    model, parents = Model(dim=dim, int8=True, seed=dim), random_tree(dim, 9)
    tokens = model.tokens(9)
    out = run("scalar", model, tokens, parents, model.cache(length, length + 9), length)
    expected = unrounded(model, tokens, parents, length)
    assert np.sqrt(((out - expected) ** 2).mean() / (expected**2).mean()) < NEAR


@pytest.mark.parametrize("part", [0, 1])
def test_great_elements_cost_little(part: int) -> None:
    """Mixing spreads them: outputs are as near as without."""
    model, parents = Model(dim=64, int8=True), random_tree(3, 9)
    tokens = model.tokens(9)
    heads = tokens.reshape(9, 10, 64)
    heads[:, 6 + 2 * part : 8 + 2 * part, 5] *= 30 if part else 3
    out = run("scalar", model, tokens, parents, model.cache(0, 9), 0)
    expected = unrounded(model, tokens, parents, 0)
    assert np.sqrt(((out - expected) ** 2).mean() / (expected**2).mean()) < NEAR


@EVERY_ROW
@pytest.mark.parametrize("dim", [16, 64, 80, 256])
def test_int8_rows_are_those_of_the_definition_bit_by_bit(row: str, dim: int) -> None:
    """Of any amplitude; at position 0, where keys are not turned."""
    model, count = Model(heads=2, kv_heads=2, dim=dim, int8=True), 300
    rng = np.random.default_rng(dim)
    heads = model.tokens(count).reshape(count, 6, dim)
    heads *= np.exp2(rng.uniform(-30, 20, (count, 6, 1))).astype(np.float32)
    heads[:6] = 0
    heads[6:12] *= np.float32([1e-44, 1e-30, 1e-12, 1e30, np.inf, np.nan])[:, None, None]
    edges = (2.0**-24, 127 * 2.0**-24, 1.0, 65504.0, 127 * 65504.0, 127 * 65510.0, np.inf, np.nan)
    for token, value in enumerate(edges):
        heads[12 + token, :, 3] = value  # one element that is the greatest, or none
        heads[20 + token] = np.float32(value) * rng.choice([-1, -0.5, 0.5, 1], (6, dim))
    cache = model.cache(0, count)
    with np.errstate(invalid="ignore"):
        run(row, model, heads.reshape(count, -1), [-1] * count, cache, 0)
    with np.errstate(invalid="ignore"):  # a turn by nothing, but what is no number is none in its partner too
        heads[:, 2:4] += 0 * np.roll(heads[:, 2:4], dim // 2, axis=-1)
    expected = model.stored(
        np.ascontiguousarray(heads[:, 2:].reshape(count, 2, 2, dim).transpose(1, 2, 0, 3))
    )
    assert same_bits(bits(cache), bits(expected))
    assert {0, 127} <= set(np.abs(cache.view(np.int8)[..., :dim]).max(axis=-1).ravel().tolist())
    assert 0 < np.isnan(cache[0, ..., -1]).mean() < 0.2


@EVERY_ROW
@pytest.mark.parametrize("part", [0, 1])
@pytest.mark.parametrize("value", [np.nan, np.inf, 1e8])
def test_what_int8_cannot_hold_shows_in_the_results(row: str, part: int, value: float) -> None:
    """In those of every token that sees it, and no other."""
    model = Model(int8=True)
    tokens = model.tokens(3)
    tokens[1].reshape(10, 16)[6 + 2 * part, 5] = value
    out = run(row, model, tokens, [-1, 0, 0], model.cache(3, 6), 3).reshape(3, 2, 3 * 16)
    assert np.isnan(out[1, 0]).all()
    assert np.isfinite(out[1, 1]).all()
    assert np.isfinite(out[[0, 2]]).all()


@EVERY_ROW
def test_keys_and_values_of_zeros_are_zeros_in_int8(row: str) -> None:
    model = Model(int8=True)
    tokens = model.tokens(2)
    tokens.reshape(2, 10, 16)[:, 6:] = 0
    cache = model.cache(0, 2)
    assert not run(row, model, tokens, [-1, 0], cache, 0).any()
    assert not bits(cache).any()
