"""gpt-oss: experts in every layer, sinks in attention, and a window in every other layer."""

from __future__ import annotations

from edgedec.export.architectures.base import Architecture, Mixture

GPTOSS = Architecture(
    name="gpt-oss",
    qkv_bias=True,
    output_bias=True,
    sinks=True,
    activation="clamped_silu",
    global_period=2,
    yarn=True,
    yarn_whole_pairs=False,
    mlp_norm="post_attention_norm",
    experts=Mixture(biases=True),
)
