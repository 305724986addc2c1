"""Qwen3.5 and Qwen3.6 with experts (35B-A3B, text): as Qwen3.5, with experts and a shared one a layer."""

from __future__ import annotations

from dataclasses import replace

from edgedec.export.architectures.base import Mixture
from edgedec.export.architectures.qwen35 import QWEN35

QWEN35MOE = replace(QWEN35, name="qwen35moe", experts=Mixture(shared=True))
