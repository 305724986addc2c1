"""Bodies of the recurrent ops: what they compute and return is what the kernels compute and write."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from edgedec.core.cache_kinds import TRAIL_SLOTS
from tests.export.graphs import node
from tests.kernels.gated_delta import F32, Layer, Memory
from tests.kernels.test_tree_attention import random_tree
from tests.portable.test_bodies import run_op

INPUTS = ("projected", "parents", "length", "applied", "trail", "state", "conv", "decay", "dt_bias", "norm")


def body_of(memory: Memory, tokens: F32, parents: list[int]) -> list[NDArray[Any]]:
    """Output, rows and state of a pass in plain ONNX Runtime; ``memory`` is the second of two layers'."""
    layer = memory.layer
    chosen = node(
        "GatedDelta",
        "out",
        *INPUTS,
        layer=1,
        k_heads=layer.k_heads,
        v_heads=layer.v_heads,
        k_dim=layer.k_dim,
        v_dim=layer.v_dim,
        kernel=layer.taps,
        epsilon=1e-6,
        tiled=int(layer.tiled),
    )
    chosen.output.extend(["rows", "after"])
    values = [
        tokens,
        np.array(parents, np.int64),
        np.array([memory.length]),
        np.array([memory.applied]),
        np.stack([np.full_like(memory.trail, np.nan), memory.trail]),
        np.stack([np.full_like(memory.state, np.nan), memory.state])[:, None],
        *layer.weights(),
    ]
    return run_op(chosen, **dict(zip(INPUTS, values, strict=True)))


@pytest.mark.parametrize(
    "layer", [Layer(), Layer(k_heads=2, v_heads=6, tiled=True, seed=1), Layer(taps=1, seed=2)], ids=str
)
def test_gated_delta(layer: Layer) -> None:
    """Prompts, single tokens, tokens taken back, and trees."""
    text, memory = layer.tokens(200), Memory(layer)
    for count, back, tree in (
        (5, 0, False),
        (1, 0, False),
        (8, 3, False),
        (9, 0, True),
        (70, 20, False),
        (2, 0, True),
        (29, 0, False),
    ):
        tokens = text[memory.length :][:count]
        parents = random_tree(count, count) if tree else list(range(-1, count - 1))
        length = memory.length
        out, rows, after = body_of(memory, tokens, parents)
        expected = memory.run("scalar", tokens, parents if tree else None)
        np.testing.assert_allclose(out, expected, rtol=0, atol=2e-4)
        np.testing.assert_allclose(after.ravel(), memory.state, rtol=0, atol=1e-5)
        slots = np.arange(length, length + count)[-TRAIL_SLOTS:]
        assert np.array_equal(rows[0, -TRAIL_SLOTS:], memory.trail[slots % TRAIL_SLOTS])
        memory.length -= back
