"""Ministral 3 (text): as Llama, with YaRN.

Its queries grow with the logarithm of their position, from the original context on. A bundle ends there.
"""

from __future__ import annotations

from edgedec.export.architectures.base import Architecture

MISTRAL3 = Architecture(
    name="mistral3",
    interleaved=True,
    yarn=True,
    foreign=("v.", "mm."),
    honours=frozenset({"attention.temperature_scale"}),
)
