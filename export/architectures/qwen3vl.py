"""Qwen3-VL (dense, text): as Qwen3. Positions of text turn its pairs alike, whichever axis a pair is of."""

from __future__ import annotations

from dataclasses import replace

from edgedec.export.architectures.qwen3 import QWEN3

QWEN3VL = replace(QWEN3, name="qwen3vl", foreign=("v.", "mm."))
