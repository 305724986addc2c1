"""Qwen3-VL (dense, text): as Qwen3. Positions of text turn its pairs alike, whichever axis a pair is of."""

from __future__ import annotations

from edgedec.export.architectures.base import Architecture

QWEN3VL = Architecture(name="qwen3vl", interleaved=False, qk_norm=True, foreign=("v.", "mm."))
