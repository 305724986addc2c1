"""The body of Experts: what it computes is what the kernel computes, but for the rounding of activations."""

from __future__ import annotations

import numpy as np
import pytest

from edgedec.kernels.packing.experts import expert_places
from edgedec.kernels.packing.layout import FORMATS
from tests.export.graphs import node
from tests.kernels.experts import Inputs, Layer, dense, random_inputs, random_layer
from tests.kernels.test_experts import EVERY_RULE, MIXED
from tests.portable.test_bodies import run_op


def body(layer: Layer, inputs: Inputs) -> np.ndarray:
    """The output in plain ONNX Runtime."""
    given = {
        "x": inputs.x,
        "scores": inputs.scores,
        "experts": layer.data,
        "choice": inputs.choice,
        "factor": inputs.factor,
        "residual": inputs.residual,
    }
    names = [name if array is not None else "" for name, array in given.items()]
    chosen = node(
        "Experts",
        "y",
        *names,
        formats=layer.formats.decode(),
        experts=len(layer.experts),
        chosen=layer.chosen,
        rows=layer.width,
        cols=layer.cols,
        activation=layer.activation,
        biases=int(layer.biases is not None),
        gating="sigmoid" if layer.sigmoid else "softmax",
        normalise=int(layer.normalise),
        epsilon=layer.epsilon,
        scale=layer.scale,
    )
    (out,) = run_op(chosen, **{name: array for name, array in given.items() if array is not None})
    return out


def assert_close(found: np.ndarray, expected: np.ndarray) -> None:
    """Compare by the largest output: small ones are differences of large ones."""
    np.testing.assert_allclose(found, expected, rtol=0, atol=2e-6 * np.abs(expected).max())


@EVERY_RULE
@pytest.mark.parametrize("m", [1, 5])
def test_the_body_computes_what_the_op_is_defined_as(m: int, rules: dict[str, object]) -> None:
    layer = random_layer(MIXED, 6, 256, 512, chosen=3, **rules)
    inputs = random_inputs(layer, m, m, extras=True)
    assert_close(body(layer, inputs), dense(layer, inputs))


@pytest.mark.parametrize("format", FORMATS)
def test_every_format(format: str) -> None:
    layer = random_layer((format, "q8_0", format), 4, 256, 256, chosen=2, activation="gelu_tanh")
    inputs = random_inputs(layer, 2, 3)
    assert_close(body(layer, inputs), dense(layer, inputs))


def test_sizes_that_fill_no_tile() -> None:
    layer = random_layer(("q8_0", "q4_1", "q5_0"), 5, 96, 160, chosen=2)
    inputs = random_inputs(layer, 3, 4, extras=True)
    assert_close(body(layer, inputs), dense(layer, inputs))


@pytest.mark.parametrize("formats", [("mxfp4", "mxfp4", "mxfp4"), ("q8_0", "q4_1", "f16")])
def test_biases_and_clamps(formats: tuple[str, str, str]) -> None:
    layer = random_layer(formats, 5, 96, 160, chosen=2, biased=True, activation="clamped_silu")
    inputs = random_inputs(layer, 3, 4, extras=True)
    assert_close(body(layer, inputs), dense(layer, inputs))
    assert expert_places(formats, 96, 160, biased=True).stride == layer.data.shape[1] == layer.kernel_stride()


def test_of_equal_scores_the_lower_index_is_chosen() -> None:
    layer = random_layer(("f32", "f32", "f32"), 9, 16, 16, chosen=5)
    x = random_inputs(layer, 1, 5).x
    inputs = Inputs(x, np.array([[1, 3, 2, 3, 2, 2, 0, 3, 2]], np.float32))
    assert_close(body(layer, inputs), dense(layer, inputs))


@pytest.mark.parametrize(
    "formats", [("q4_k", "q4_k", "q6_k"), ("q8_0", "q4_1", "f16"), ("mxfp4", "q2_k", "q3_k")]
)
def test_both_layouts_of_an_expert_are_one(formats: tuple[str, str, str]) -> None:
    for width, cols in ((256, 512), (768, 256)):
        layer = random_layer(formats, 1, width, cols, chosen=1)
        assert expert_places(formats, width, cols).stride == layer.data.shape[1] == layer.kernel_stride()
