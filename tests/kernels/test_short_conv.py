"""ShortConv: accuracy. tests/kernels/test_recurrent_passes.py has the promises of all recurrent ops."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.float_rows import float_rows
from tests.kernels.recurrent import Memory
from tests.kernels.short_conv import ShortConvLayer, reference

LAYERS = [ShortConvLayer(), ShortConvLayer(hidden=1040, taps=4, seed=1), ShortConvLayer(taps=1, seed=2)]


@pytest.mark.parametrize("row", float_rows())
@pytest.mark.parametrize("layer", LAYERS, ids=str)
def test_follows_the_definition(row: str, layer: ShortConvLayer) -> None:
    tokens, memory = layer.tokens(80), Memory(layer)
    outs = [memory.run(row, tokens[:40]), *(memory.run(row, tokens[i : i + 1]) for i in range(40, 80))]
    np.testing.assert_allclose(np.concatenate(outs), reference(layer, tokens), rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    "layer", [ShortConvLayer(hidden=0), ShortConvLayer(hidden=24), ShortConvLayer(taps=9)]
)
def test_impossible_layers_are_refused(layer: ShortConvLayer) -> None:
    sizes = ShortConvLayer()
    memory, out = Memory(sizes), np.zeros((1, 48), np.float32)
    assert layer.call("scalar", memory, sizes.tokens(1), [-1], out) == 2
