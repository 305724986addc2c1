"""Bodies of the recurrent ops: what they compute and return is what the kernels compute and write."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from edgedec.core.cache_kinds import TRAIL_SLOTS
from tests.export.graphs import node
from tests.kernels.float_rows import F32
from tests.kernels.gated_delta import Layer
from tests.kernels.recurrent import Memory, RecurrentLayer
from tests.kernels.short_conv import ShortConvLayer
from tests.kernels.test_tree_attention import random_tree
from tests.portable.test_bodies import run_op

INPUTS = ("projected", "parents", "length", "applied", "trail", "state", "conv", "decay", "dt_bias", "norm")
PASSES = ((5, 0, False), (1, 0, False), (8, 3, False), (9, 0, True), (70, 20, False), (2, 0, True))
"""Tokens, how many of them are taken back, and whether they are a tree."""


def body_of(memory: Memory, tokens: F32, parents: list[int]) -> list[NDArray[Any]]:
    """Outputs of a pass in plain ONNX Runtime; ``memory`` is the second of two layers'."""
    layer, trail = memory.layer, np.stack([np.full_like(memory.trail, np.nan), memory.trail])
    shared = [tokens, np.array(parents), np.array([memory.length]), np.array([memory.applied]), trail]
    if isinstance(layer, ShortConvLayer):
        names = [*INPUTS[:5], "conv"]
        chosen = node("ShortConv", "out", *names, layer=1, kernel=layer.taps)
        chosen.output.append("rows")
        return run_op(chosen, **dict(zip(names, [*shared, *layer.weights()], strict=True)))
    assert isinstance(layer, Layer)
    sizes = {"k_heads": layer.k_heads, "v_heads": layer.v_heads, "k_dim": layer.k_dim, "v_dim": layer.v_dim}
    more = {"kernel": layer.taps, "epsilon": 1e-6, "tiled": int(layer.tiled), "layer": 1}
    chosen = node("GatedDelta", "out", *INPUTS, **sizes, **more)
    chosen.output.extend(["rows", "after"])
    state = np.stack([np.full_like(memory.state, np.nan), memory.state])[:, None]
    return run_op(chosen, **dict(zip(INPUTS, [*shared, state, *layer.weights()], strict=True)))


@pytest.mark.parametrize(
    "layer",
    [
        Layer(),
        Layer(k_heads=2, v_heads=6, tiled=True, seed=1),
        Layer(taps=1, seed=2),
        ShortConvLayer(),
        ShortConvLayer(taps=1),
    ],
    ids=str,
)
def test_a_body_computes_and_returns_what_a_kernel_computes_and_writes(layer: RecurrentLayer) -> None:
    """For prompts, single tokens, tokens taken back, and trees."""
    text, memory = layer.tokens(200), Memory(layer)
    for count, back, tree in PASSES:
        length, tokens = memory.length, text[memory.length :][:count]
        parents = random_tree(count, count) if tree else list(range(-1, count - 1))
        out, rows, *after = body_of(memory, tokens, parents)
        expected = memory.run("scalar", tokens, parents if tree else None)
        np.testing.assert_allclose(out, expected, rtol=0, atol=2e-4)
        for state in after:
            np.testing.assert_allclose(state.ravel(), memory.state, rtol=0, atol=1e-5)
        slots = np.arange(length, length + count)[-TRAIL_SLOTS:]
        np.testing.assert_array_equal(rows[0, -TRAIL_SLOTS:], memory.trail[slots % TRAIL_SLOTS])
        memory.length -= back
