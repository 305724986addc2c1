"""Llama and its kin (SmolLM2, Mistral, TinyLlama): the GGUF q and k rows are permuted for interleaved
pairs.
"""

from __future__ import annotations

from edgedec.export.architectures.base import Architecture

LLAMA = Architecture(name="llama", interleaved=True)
