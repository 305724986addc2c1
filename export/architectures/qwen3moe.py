"""Qwen3 with experts (30B-A3B, Coder): as Qwen3, with experts in every layer."""

from __future__ import annotations

from dataclasses import replace

from edgedec.export.architectures.base import Mixture
from edgedec.export.architectures.qwen3 import QWEN3

QWEN3MOE = replace(QWEN3, name="qwen3moe", experts=Mixture())
