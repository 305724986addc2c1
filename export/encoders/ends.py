"""The last steps of every encoder: pooling, further linears, and the length of the vector."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper

from edgedec.bundle.embedding_facts import Pooling
from edgedec.core.quick_dataclass import dataclass
from edgedec.export.builder import GraphBuilder
from edgedec.export.model import VectorWeight
from edgedec.export.tensors import Part

OUTPUT = "vectors"
_NOTHING = 1e-30
"""Added to the mean square of a vector, so that zeros stay zeros."""


DIFFERENCE = "difference"
"""Activation of a linear with two rows: the sigmoid of the second less the first, their softmax."""


@dataclass(frozen=True, slots=True)
class Dense:
    """A linear behind the pooling: ``name`` of its tensors, its size, and a function; "" for none."""

    name: str
    rows: int
    cols: int
    bias: bool = True
    activation: str = ""
    order: tuple[int, ...] = ()
    """Rows of a taller matrix, ``tensor``, that this one has."""
    tensor: str = ""
    height: int = 0
    norm: str = ""
    """Name of a layer norm behind the function, and its epsilon."""
    norm_bias: bool = False
    epsilon: float = 0.0


@dataclass(frozen=True, slots=True)
class Ends:
    """What comes behind the last layer."""

    pooling: Pooling
    dense: Sequence[Dense] = ()
    normalised: bool = True


def encoder_inputs(types: bool) -> list[onnx.ValueInfoProto]:
    """Return the inputs of an encoder's graph.

    ``positions`` count from the beginning of each text; ``offsets`` are where texts begin, and the end of the
    last; ``types`` of tokens are 1 in the second text of a pair.
    """
    names = ["tokens", "positions", *(["types"] if types else [])]
    rows = [helper.make_tensor_value_info(name, TensorProto.INT64, ["tokens"]) for name in names]
    return [*rows, helper.make_tensor_value_info("offsets", TensorProto.INT64, ["offsets"])]


def encoder_outputs(size: int) -> list[onnx.ValueInfoProto]:
    """Return the output of an encoder's graph: a vector, or scores, for each text."""
    return [helper.make_tensor_value_info(OUTPUT, TensorProto.FLOAT, ["texts", size])]


def finish(builder: GraphBuilder, x: str, width: int, ends: Ends) -> None:
    """Add the nodes from hidden states ``x`` f32[tokens, width] to the output."""
    last = not ends.dense and not ends.normalised
    x = builder.op("Pool", OUTPUT if last else "pooled", [x, "offsets"], pooling=ends.pooling)
    for at, dense in enumerate(ends.dense):
        final = at + 1 == len(ends.dense) and not ends.normalised
        matrix = builder.matrix(f"{dense.name}.weight", dense.rows, dense.cols, _part(dense))
        bias = builder.vector(f"{dense.name}.bias", dense.rows) if dense.bias else ""
        product = OUTPUT if final and not dense.activation else dense.name
        x, width = builder.products(product, x, [matrix], bias=bias), dense.rows
        if dense.activation == DIFFERENCE:
            x = _difference(builder, x)
        elif dense.activation:
            name = OUTPUT if final else f"{dense.name}.active"
            x = builder.op("Activate", name, [x], function=dense.activation)
        if dense.norm:
            parts = ("weight", "bias") if dense.norm_bias else ("weight",)
            inputs = [x, *(builder.vector(f"{dense.norm}.{part}", width) for part in parts)]
            x = builder.op("LayerNorm", dense.norm, inputs, epsilon=dense.epsilon)
    if ends.normalised:
        # A vector over its length is the vector over its root mean square, and over the root of its size.
        builder.model.weights["unit"] = VectorWeight(np.full(width, width**-0.5, np.float32))
        builder.op("RMSNorm", OUTPUT, [x, "unit"], epsilon=_NOTHING)


def _part(dense: Dense) -> Part | None:
    if not dense.order:
        return None
    return Part(dense.tensor, 0, dense.height, lambda: np.array(dense.order, np.int64))


def _difference(builder: GraphBuilder, x: str) -> str:
    """Return the probability of the second of two logits; it is the output."""
    builder.model.weights["signs"] = VectorWeight(np.array([[-1], [1]], np.float32))
    apart = builder.op("MatMul", "apart", [x, "signs"], domain="")
    return builder.op("Activate", OUTPUT, [apart], function="sigmoid")
