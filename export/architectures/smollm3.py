"""SmolLM3: as Llama, but every fourth layer has no positions. No key of a GGUF file says so."""

from __future__ import annotations

from edgedec.export.architectures.base import Architecture

SMOLLM3 = Architecture(name="smollm3", interleaved=True, no_rope_period=4)
