"""Gated DeltaNet: a recurrence with one matrix of state a head, and a convolution before it."""

from __future__ import annotations

from edgedec.export.blocks.base import BlockBuilder

_TERMS = 2
"""Int8 terms of the inputs of the projections, as for attention.

Errors of q, k and v stay in the state. In small random models one term instead of two means four times the
error of the logits, and one in the output, whose input is a product of a norm and a gate, 1.6 times.
"""


def gated_delta(builder: BlockBuilder, layer: int, x: str) -> str:
    """Add the mixer of a layer of this kind."""
    hyper, block = builder.hyper, f"blk.{layer}."
    sizes = hyper.delta
    parts = [
        builder.linear(block + name, x, (rows, hyper.hidden), terms=_TERMS)
        for name, rows in (
            ("attn_qkv", sizes.channels),
            ("attn_gate", sizes.values),
            ("ssm_beta", sizes.v_heads),
            ("ssm_alpha", sizes.v_heads),
        )
    ]
    projected = builder.op("Concat", block + "projected", parts, domain="", axis=1)
    weights = [
        builder.array(block + "ssm_conv1d.weight", (sizes.channels, sizes.kernel)),
        builder.vector(block + "ssm_a", sizes.v_heads),
        builder.vector(block + "ssm_dt.bias", sizes.v_heads),
        builder.vector(block + "ssm_norm.weight", sizes.v_dim),
    ]
    states = ["parents", "length", "applied", "delta_trail", "delta_state"]
    mixed = builder.op(
        "GatedDelta",
        block + "delta",
        [projected, *states, *weights],
        layer=hyper.place(layer),
        k_heads=sizes.k_heads,
        v_heads=sizes.v_heads,
        k_dim=sizes.k_dim,
        v_dim=sizes.v_dim,
        kernel=sizes.kernel,
        epsilon=hyper.epsilon,
        tiled=1,
    )
    return builder.linear(block + "ssm_out", mixed, (hyper.hidden, sizes.values), terms=_TERMS)
