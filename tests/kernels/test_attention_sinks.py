"""Attention with a sink for each head: one more logit in the softmax, whose value is zero."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from tests.kernels.attention import Model, bits, reference, run, weights
from tests.kernels.float_rows import F32, float_rows, same_bits
from tests.kernels.test_tree_attention import check, random_tree

EVERY_ROW = pytest.mark.parametrize("row", float_rows())
EVERY_CACHE = pytest.mark.parametrize("int8", [False, True])


@EVERY_ROW
@EVERY_CACHE
@pytest.mark.parametrize("window", [0, 12])
@pytest.mark.parametrize("length", [0, 1, 17, 100])
def test_follows_the_definition(row: str, length: int, window: int, int8: bool) -> None:
    for heads, kv_heads in ((6, 2), (16, 2), (32, 1)):  # the last ones are more than a block takes
        model = Model(heads, kv_heads, dim=32, window=window, int8=int8, sinks=True, seed=length)
        check(row, model, random_tree(heads, 11), length)


@EVERY_ROW
def test_a_softcap_is_not_for_sinks(row: str) -> None:
    check(row, Model(dim=64, softcap=1.5, sinks=True), random_tree(3, 9), 20)


@EVERY_CACHE
@pytest.mark.parametrize("window", [0, 30])
@pytest.mark.parametrize("seed", range(3))
def test_every_row_has_the_bits_of_the_scalar_row(seed: int, window: int, int8: bool) -> None:
    model = Model(heads=16, dim=64, window=window, sinks=True, seed=seed, int8=int8)
    tokens, parents, results = model.tokens(9), random_tree(seed, 9), []
    for row in float_rows():
        cache = model.cache(45, 60)
        results.append((run(row, model, tokens, parents, cache, 45), cache))
    for out, cache in results[1:]:
        assert same_bits(out, results[0][0])
        assert same_bits(bits(cache), bits(results[0][1]))


def outputs(model: Model, parents: Sequence[int], split: tuple[int, int, int] | None = None) -> F32:
    return run("scalar", model, model.tokens(len(parents)), parents, model.cache(90, 120), 90, split)


@EVERY_CACHE
def test_a_token_has_the_same_bits_in_any_pass_and_split(int8: bool) -> None:
    model = Model(heads=16, dim=32, sinks=True, int8=int8)
    whole = outputs(model, [-1, 0, 1, 2, 3])
    for split in ((1, 0, 0), (3, 0, 0), (1, 16, 16), (3, 48, 32)):
        assert same_bits(outputs(model, [-1, 0, 1, 2, 3], split), whole)
    assert same_bits(outputs(model, [-1]), whole[:1])


def test_a_ring_has_the_bits_of_a_whole_cache() -> None:
    model = Model(dim=32, window=8, sinks=True)
    parents, tokens = [-1, 0, 0], model.tokens(3)
    whole = model.cache(20, 23)
    expected = run("scalar", model, tokens, parents, whole, 20)
    ring = np.full_like(whole[:, :, :16], np.nan)
    for slot in range(12, 20):
        ring[:, :, slot % 16] = whole[:, :, slot]
    assert same_bits(run("scalar", replace(model, ring=True), tokens, parents, ring, 20), expected)


def test_sinks_take_their_share_from_all_keys() -> None:
    plain, model = Model(dim=32), Model(dim=32, sinks=True)
    tokens, parents, cache = model.tokens(2), [-1, 0], model.cache(10, 12)
    attention = np.zeros((2, 12), np.float32)
    out = run("scalar", model, tokens, parents, cache, 10, attention=attention)
    shares = weights(model, tokens, parents, cache, 10)
    np.testing.assert_allclose(attention, shares.reshape(2, 2, 3, 12).max(axis=(0, 2)), atol=1e-6)
    assert (shares.sum(axis=-1) < 0.9999).all()
    assert np.abs(out - reference(plain, tokens, parents, cache, 10)[0]).max() > 0.01


@pytest.mark.parametrize("extreme", [-1e30, -3e38, 200.0, 3e38])
def test_extreme_sinks_stay_numbers(extreme: float, monkeypatch: pytest.MonkeyPatch) -> None:
    model = Model(dim=32, sinks=True)
    monkeypatch.setattr(Model, "sink_logits", lambda self: np.full(self.heads, extreme, np.float32))
    got = outputs(model, [-1, 0])
    assert np.isfinite(got).all()
    assert got.any() == (extreme < 0)
