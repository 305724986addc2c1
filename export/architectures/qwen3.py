"""Qwen3 (dense): norms on the heads of q and k, no biases."""

from __future__ import annotations

from edgedec.export.architectures.base import Architecture

QWEN3 = Architecture(name="qwen3", qk_norm=True)
