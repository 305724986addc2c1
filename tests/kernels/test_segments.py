"""Attention of whole texts: its definition, the same bits on every row, and no sight of other texts."""

from __future__ import annotations

import ctypes
from itertools import pairwise

import numpy as np
import pytest

from tests.kernels import segments
from tests.kernels.attention import Model
from tests.kernels.float_rows import call, float_rows, same_bits

MODELS = [
    Model(heads=12, kv_heads=12, dim=64),
    Model(heads=4, kv_heads=2, dim=32, norms=True, interleaved=True),
    Model(heads=26, kv_heads=1, dim=16, softcap=5.0),
]
OFFSETS = [0, 1, 3, 20, 21, 101, 132]
"""Texts of 1 to 80 tokens."""
SEEN = [(segments.ALL, segments.ALL), (segments.ALL, 0), (4, 4), (1, 30), (0, 0)]


@pytest.mark.parametrize("seen", SEEN)
@pytest.mark.parametrize("model", MODELS, ids=str)
def test_it_follows_its_definition(model: Model, seen: tuple[int, int]) -> None:
    tokens = model.tokens(OFFSETS[-1])
    expected = segments.reference(model, tokens, OFFSETS, *seen)
    np.testing.assert_allclose(segments.run("scalar", model, tokens, OFFSETS, *seen), expected, atol=3e-3)


@pytest.mark.parametrize("seen", SEEN)
@pytest.mark.parametrize("model", MODELS, ids=str)
def test_every_row_has_the_bits_of_the_scalar_row(model: Model, seen: tuple[int, int]) -> None:
    tokens = model.tokens(OFFSETS[-1])
    expected = segments.run("scalar", model, tokens, OFFSETS, *seen)
    assert np.isfinite(expected).all()
    for row in float_rows()[1:]:
        assert same_bits(segments.run(row, model, tokens, OFFSETS, *seen), expected), row


@pytest.mark.parametrize("row", float_rows())
def test_a_text_has_the_bits_that_it_has_alone(row: str) -> None:
    model, seen = MODELS[0], (4, 4)
    tokens = model.tokens(OFFSETS[-1])
    together = segments.run(row, model, tokens, OFFSETS, *seen)
    for first, end in pairwise(OFFSETS):
        alone = segments.run(row, model, tokens[first:end], [0, end - first], *seen)
        assert same_bits(together[first:end], alone), (first, end)


def test_offsets_that_cut_nothing_are_refused() -> None:
    model = MODELS[1]
    tokens, rotary, out = model.tokens(4), model.rotary(range(4)), np.zeros((4, 128), np.float32)
    for offsets in ([0, 0, 4], [1, 4], [0, 5, 4], []):
        given = np.asarray(offsets, np.int64)
        config = ctypes.byref(model.config())
        status = call("edgedec_segment_attention", "scalar", config, tokens, rotary, given, len(given), 1, 1,
                      *model.norm_weights(), out)  # fmt: skip
        assert status == 2, offsets
    assert (
        call("edgedec_segment_attention", "avx3", None, tokens, rotary, tokens, 1, 1, 1, None, None, out) == 1
    )
