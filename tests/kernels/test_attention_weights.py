"""What attention fell on: the definition, and the promise of the same bits however a pass is computed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from tests.kernels.attention import Model, bits, run, weights
from tests.kernels.float_rows import F32, float_rows, same_bits
from tests.kernels.test_tree_attention import random_tree

LENGTH, CAPACITY = 45, 70
MODELS = {
    "groups of three": Model(dim=64),
    "groups of seven": Model(heads=14, kv_heads=2, dim=80, norms=True),
    "a head each": Model(heads=4, kv_heads=4, dim=32, interleaved=True),
    "more heads than a block takes": Model(heads=100, kv_heads=1, dim=16),
    "a softcap": Model(heads=4, kv_heads=2, dim=32, softcap=1.5),
    "a window": Model(heads=6, kv_heads=2, dim=32, window=20),
    "int8": Model(heads=9, kv_heads=3, dim=64, int8=True),
}
SPLITS = [None, (1, 0, 0), (1, 16, 16), (1, 7, 32)]


def looked(
    row: str,
    model: Model,
    tokens: F32,
    parents: Sequence[int],
    length: int = LENGTH,
    split: tuple[int, int, int] | None = None,
) -> F32:
    """[kv heads, CAPACITY], NaN where nothing was written; the outputs and the cache are as without it."""
    found = np.full((model.kv_heads, CAPACITY), np.float32(np.nan))
    asked, plain = model.cache(length, CAPACITY), model.cache(length, CAPACITY)
    out = run(row, model, tokens, parents, asked, length, split, found)
    assert same_bits(out, run(row, model, tokens, parents, plain, length))
    assert same_bits(bits(asked), bits(plain))
    return found


@pytest.mark.parametrize("row", float_rows())
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("count", [1, 7, 25])
def test_they_follow_the_definition(row: str, name: str, count: int) -> None:
    model, parents = MODELS[name], random_tree(count, count)
    tokens, cache = model.tokens(count), model.cache(LENGTH, CAPACITY)
    found = looked(row, model, tokens, parents)
    run(row, model, tokens, parents, cache, LENGTH)
    given = weights(model, tokens, parents, cache, LENGTH)
    expected = given.reshape(count, model.kv_heads, -1, CAPACITY).max(axis=(0, 2))
    end = LENGTH + count
    np.testing.assert_allclose(found[:, :end], expected[:, :end], rtol=1e-5, atol=1e-7)
    assert (found[:, :end] == 0).tolist() == (expected[:, :end] == 0).tolist()
    assert np.isnan(found[:, end:]).all()
    assert found[:, :end].max() > 0.05


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("split", SPLITS)
def test_every_row_and_split_has_the_bits_of_the_scalar_row(
    name: str, split: tuple[int, int, int] | None
) -> None:
    model, parents = MODELS[name], random_tree(3, 23)
    tokens = model.tokens(23)
    expected = looked("scalar", model, tokens, parents)
    for row in float_rows():
        assert same_bits(looked(row, model, tokens, parents, split=split), expected), row


@pytest.mark.parametrize("row", float_rows())
def test_they_are_the_greatest_of_those_of_each_token(row: str) -> None:
    """Bit by bit; a token by itself is a plain sequence of its path."""
    model = MODELS["groups of three"]
    tokens, cache, alone = model.tokens(20), model.cache(LENGTH, CAPACITY), []
    for i in range(20):
        found = np.zeros((model.kv_heads, CAPACITY), np.float32)
        run(row, model, tokens[i : i + 1], [-1], cache, LENGTH + i, None, found)
        alone.append(found)
    together = looked(row, model, tokens, list(range(-1, 19)))
    assert same_bits(together[:, : LENGTH + 20], np.max(alone, axis=0)[:, : LENGTH + 20])


@pytest.mark.parametrize("row", float_rows())
def test_without_resident_tokens_a_first_one_looks_at_itself_alone(row: str) -> None:
    model = MODELS["groups of three"]
    found = looked(row, model, model.tokens(3), [-1, -1, 1], 0)
    assert (found[:, :2] == 1).all()
    assert ((found[:, 2] > 0) & (found[:, 2] < 1)).all()


@pytest.mark.parametrize("row", float_rows())
def test_a_token_that_is_no_number_does_not_count(row: str) -> None:
    model = MODELS["groups of three"]
    tokens = model.tokens(3)
    sane = looked(row, model, tokens, [-1, -1, -1])
    tokens[1, : model.heads * model.dim] = np.nan  # its queries, not its keys
    found = looked(row, model, tokens, [-1, -1, -1])
    slots = [LENGTH, LENGTH + 2]
    assert same_bits(np.ascontiguousarray(found[:, slots]), np.ascontiguousarray(sane[:, slots]))
    assert (found[:, LENGTH + 1] == 0).all()
    assert (found[:, :LENGTH] <= sane[:, :LENGTH]).all()
    assert (found[:, :LENGTH].max(axis=1) > 0).all()
