"""Experts as a node of ONNX Runtime: the bits of the kernel, and one clear line for a wrong node or input."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from edgedec.core.errors import BackendError
from edgedec.kernels import library
from tests.backends.test_hostile_calls import session
from tests.fuzz.op_cases import experts, tensor
from tests.kernels.experts import random_inputs, random_layer, run
from tests.kernels.quant_rows import Runner


@pytest.mark.parametrize("biased", [False, True])
def test_a_node_has_the_bits_of_the_kernel(biased: bool) -> None:
    rules: dict[str, Any] = {"activation": "clamped_silu"} if biased else {}
    layer = random_layer(("q8_0", "q8_0", "q8_0"), 4, 32, 64, chosen=2, biased=biased, **rules)
    for tokens in (1, 5):
        inputs = random_inputs(layer, tokens, 1, extras=True)
        made = session(*experts("q8_0", 64, tokens, **rules, **({"biases": 1} if biased else {})))
        arrays = (inputs.x, inputs.scores, layer.data, inputs.choice, inputs.factor, inputs.residual)
        (out,) = made.run(None, {f"in{i}": array for i, array in enumerate(arrays)})
        assert out.tobytes() == run(Runner(library.isa()), layer, inputs).tobytes()


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no experts": ({"experts": 0}, "experts must be 1 to 65536"),
    "too many experts": ({"experts": 1 << 40}, "experts must be 1 to 65536"),
    "none chosen": ({"chosen": 0}, "so many experts cannot be chosen"),
    "more chosen than there are": ({"chosen": 5}, "so many experts cannot be chosen"),
    "two formats": ({"formats": "q8_0,q8_0"}, "formats must name three"),
    "an unknown format": ({"formats": "q8_0,q8_0,q7_0"}, "unknown weight format q7_0"),
    "a huge width": ({"rows": 1 << 40}, "impossible weight shape"),
    "an unknown gating": ({"gating": "hash"}, "unknown gating hash"),
    "an unknown activation": ({"activation": "relu"}, "unknown activation relu"),
    "an activation of other ops": ({"activation": "sigmoid"}, "unknown activation sigmoid"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_node_is_refused(name: str) -> None:
    changed, message = WRONG[name]
    with pytest.raises(BackendError, match=message):
        session(*experts("q8_0", 64, 1, **changed))


@pytest.mark.parametrize(
    ("place", "given", "message"),
    [
        (0, tensor("f32", 2, 63), "in0|input 0|columns|shape"),
        (1, tensor("f32", 2, 5), "shape|columns"),
        (1, tensor("f32", 3, 4), "scores have the wrong shape"),
        (2, tensor("u8", 4, 4096), "packed experts have 16384 bytes, their shapes need"),
        (2, tensor("u8", 0, 4096), "packed experts have 0 bytes"),
        (3, tensor("f32", 5), "choice has the wrong length"),
        (4, tensor("f32", 1), "factor has the wrong length"),
        (5, tensor("f32", 1, 64), "residual has the wrong shape"),
    ],
)
def test_a_wrong_input_is_refused(place: int, given: dict[str, Any], message: str) -> None:
    op, attributes, inputs = experts("q8_0", 64, 2)
    made = session(op, attributes, inputs)
    inputs[place] = given
    kinds = {"f32": np.float32, "u8": np.uint8}
    feeds = {f"in{i}": np.ones(one["shape"], kinds[one["type"]]) for i, one in enumerate(inputs) if one}
    with pytest.raises(Exception, match=message):
        made.run(None, feeds)
