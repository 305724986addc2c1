"""Llama, SmolLM2, Mistral, TinyLlama: GGUF files permute the rows of q and k for interleaved pairs."""

from __future__ import annotations

from edgedec.export.architectures.base import Architecture

LLAMA = Architecture(name="llama", interleaved=True)
