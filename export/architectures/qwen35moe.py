"""Qwen3.5 and Qwen3.6 with experts (35B-A3B, text): as Qwen3.5, with experts and a shared one a layer."""

from __future__ import annotations

from edgedec.export.architectures.base import Architecture, Mixture

QWEN35MOE = Architecture(
    name="qwen35moe",
    interleaved=False,
    qk_norm=True,
    partial_rotary=True,
    gated_attention=True,
    recurrent="delta",
    mlp_norm="post_attention_norm",
    experts=Mixture(shared=True),
    honours=frozenset({"expert_count"}),
)
