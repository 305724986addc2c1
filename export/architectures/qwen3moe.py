"""Qwen3 with experts (30B-A3B, Coder): as Qwen3, with experts in every layer."""

from __future__ import annotations

from edgedec.export.architectures.base import Architecture, Mixture

QWEN3MOE = Architecture(
    name="qwen3moe",
    interleaved=False,
    qk_norm=True,
    experts=Mixture(),
    honours=frozenset({"expert_count"}),
)
