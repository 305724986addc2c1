"""Per-layer embeddings: each layer adds numbers of the token that come from a table of its own.

A token has one row of the table ``per_layer_token_embd`` for all layers, which passes read from the file.
"""

from __future__ import annotations

import math

import numpy as np

from edgedec.export.blocks.base import BlockBuilder
from edgedec.export.model import VectorWeight

_TABLE, _NORM = "per_layer_token_embd.weight", "per_layer_proj_norm.weight"


def per_layer_inputs(builder: BlockBuilder, x: str) -> list[str]:
    """Add (row sqrt(d) + norm(projection(x) / sqrt(hidden)) weight) / sqrt(2), and return each layer's part.

    ``x`` are the embedded tokens, d the numbers of a layer. The constant factors are folded: into the scale
    of the row, into the weight of the norm, and into its epsilon, which the division of its input scales.
    """
    hyper, size = builder.hyper, builder.hyper.per_layer
    cols, half = hyper.layers * size, math.sqrt(0.5)
    table = builder.matrix(_TABLE, builder.tensors.rows_of("token_embd.weight"), cols)
    lookup = {**builder.table(table), "alone": 1}
    rows = builder.op(
        "QuantEmbedding", "per_layer_embedding", ["tokens", table], scale=math.sqrt(size) * half, **lookup
    )
    projected = builder.linear("per_layer_model_proj", x, (cols, hyper.hidden))
    weight = builder.tensors.vector(_NORM, size).values * np.float32(half)
    builder.model.weights[_NORM] = VectorWeight(weight)
    parts = [builder.reshape(f"{name}_parts", name, (-1, size)) for name in (projected, rows)]
    epsilon = hyper.epsilon * hyper.hidden
    normed = builder.op("RMSNorm", "per_layer_proj_norm", [parts[0], _NORM], epsilon=epsilon)
    mixed = builder.op("Add", "per_layer_mixed", [parts[1], normed], domain="")
    whole = builder.reshape("per_layer_rows", mixed, (-1, cols))
    names = [f"per_layer.{layer}" for layer in range(hyper.layers)]
    builder.node("Split", "per_layer", [whole], names, domain="", axis=1, num_outputs=hyper.layers)
    return names


def add_per_layer(builder: BlockBuilder, layer: int, x: str, own: str, out: str) -> str:
    """Add x + norm(projection(gelu(gate x) * own)), and call it ``out``."""
    hyper, block = builder.hyper, f"blk.{layer}."
    gate = builder.linear(block + "inp_gate", x, (hyper.per_layer, hyper.hidden))
    gated = builder.op("GatedProduct", block + "per_layer_gated", [own, gate], activation="gelu_tanh")
    added = builder.linear(block + "proj", gated, (hyper.hidden, hyper.per_layer))
    return builder.op("Add", out, [x, builder.norm(block + "post_norm", added)], domain="")
