"""Short convolution: C times a convolution over B times x."""

from __future__ import annotations

from edgedec.export.blocks.base import BlockBuilder

_TERMS = 2
"""Int8 terms of the input of B, C and x, as for attention."""


def short_conv(builder: BlockBuilder, layer: int, x: str) -> str:
    """Add the mixer of a layer of this kind."""
    hyper, block = builder.hyper, f"blk.{layer}.shortconv."
    sizes = hyper.conv
    projected = builder.linear(block + "in_proj", x, (3 * sizes.channels, hyper.hidden), terms=_TERMS)
    weight = builder.array(block + "conv.weight", (sizes.channels, sizes.kernel))
    mixed = builder.op(
        "ShortConv",
        block + "mixed",
        [projected, "parents", "length", "applied", "conv_trail", weight],
        layer=hyper.place(layer),
        kernel=sizes.kernel,
    )
    return builder.linear(block + "out_proj", mixed, (hyper.hidden, sizes.channels))
