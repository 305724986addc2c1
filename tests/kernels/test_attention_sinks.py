"""Attention with a sink for each head: one more logit in the softmax, whose value is zero."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from tests.kernels.attention import Model, reference, run, weights
from tests.kernels.float_rows import F32, float_rows, same_bits

EVERY_ROW = pytest.mark.parametrize("row", float_rows())
EVERY_CACHE = pytest.mark.parametrize("int8", [False, True])


def outputs(model: Model, parents: Sequence[int], split: tuple[int, int, int] | None = None) -> F32:
    return run("scalar", model, model.tokens(len(parents)), parents, model.cache(90, 120), 90, split)


@EVERY_CACHE
def test_a_token_has_the_same_bits_in_any_pass_and_split(int8: bool) -> None:
    model = Model(heads=16, dim=32, sinks=True, int8=int8)
    whole = outputs(model, [-1, 0, 1, 2, 3])
    for split in ((1, 0, 0), (3, 0, 0), (1, 16, 16), (3, 48, 32)):
        assert same_bits(outputs(model, [-1, 0, 1, 2, 3], split), whole)
    assert same_bits(outputs(model, [-1]), whole[:1])


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
