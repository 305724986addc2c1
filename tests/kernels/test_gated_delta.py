"""GatedDelta: accuracy, and what is its own beside the promises of all recurrent ops."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.float_rows import float_rows, same_bits
from tests.kernels.gated_delta import Layer, reference
from tests.kernels.recurrent import Memory
from tests.kernels.test_recurrent_passes import DELTAS, chain_of


@pytest.mark.parametrize("row", float_rows())
@pytest.mark.parametrize("layer", DELTAS, ids=str)
def test_follows_the_definition(row: str, layer: Layer) -> None:
    tokens = layer.tokens(40)
    outs, states = chain_of(row, layer, tokens)
    expected, _ = reference(layer, tokens)
    np.testing.assert_allclose(outs, expected, rtol=0, atol=3e-4)
    _, state = reference(layer, tokens[:-1])
    np.testing.assert_allclose(states[-1], state.ravel(), rtol=0, atol=1e-5)
    assert np.abs(state).max() > 0.1


@pytest.mark.parametrize("row", float_rows())
def test_siblings_are_not_read(row: str) -> None:
    layer = Layer()
    tokens = layer.tokens(5)
    expected = Memory(layer).run(row, tokens, [-1, -1, 0, 1, 2])
    tokens[1] = np.float32(np.nan)
    got = Memory(layer).run(row, tokens, [-1, -1, 0, 1, 2])
    assert same_bits(got[[0, 2, 4]], expected[[0, 2, 4]])
    assert np.isnan(got[[1, 3]]).all()


@pytest.mark.parametrize("row", float_rows())
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 3e38, -3e38, 1e-45])
def test_strange_numbers_do_no_harm(row: str, value: float) -> None:
    """Each alone; a token after them is a number, or not, in every row alike."""
    layer = Layer()
    for place in (0, layer.channels - 1, layer.channels, layer.width - layer.v_heads - 1, layer.width - 1):
        tokens = layer.tokens(6)
        tokens[2, place] = np.float32(value)
        assert same_bits(Memory(layer).run(row, tokens), Memory(layer).run("scalar", tokens))


@pytest.mark.parametrize(
    "layer",
    [
        Layer(v_heads=3),
        Layer(k_heads=0),
        Layer(k_dim=24),
        Layer(v_dim=8),
        Layer(taps=9),
        Layer(taps=0),
    ],
)
def test_impossible_layers_are_refused(layer: Layer) -> None:
    sizes = Layer()
    memory, out = Memory(sizes), np.zeros((1, 192), np.float32)
    assert layer.call("scalar", memory, sizes.tokens(1), [-1], out) == 2
