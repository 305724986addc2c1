"""Qwen3.5 (dense, text): three of four layers are Gated DeltaNet, the others have gated attention.

Norm weights in the file include the 1 that is added to them.
"""

from __future__ import annotations

from edgedec.export.architectures.base import Architecture

QWEN35 = Architecture(
    name="qwen35",
    qk_norm=True,
    partial_rotary=True,
    gated_attention=True,
    recurrent="delta",
    mlp_norm="post_attention_norm",
)
