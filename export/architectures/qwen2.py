"""Qwen2 and Qwen2.5: biases on q, k and v."""

from __future__ import annotations

from edgedec.export.architectures.base import Architecture

QWEN2 = Architecture(name="qwen2", qkv_bias=True)
