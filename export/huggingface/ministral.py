"""Reads what config.json of Ministral 3 has beside the usual fields."""

from __future__ import annotations

from typing import Any

from edgedec.core.errors import BadFileError, UnsupportedError
from edgedec.export.fields import Fields


def ministral3_keys(fields: Fields) -> dict[str, Any]:
    """Return the keys of a GGUF file for the factor on queries, which is 1 up to the original context."""
    if fields.data.get("sliding_window") is not None:
        raise UnsupportedError("a sliding window in mistral3 models is not supported")
    rope = fields.object("rope_parameters")
    if not rope.data:
        raise BadFileError(f"{fields.where} lacks rope_parameters", hint="download the model again")
    scale = rope.number("llama_4_scaling_beta", 0.0)
    if not scale:
        return {}
    return {
        "attention.temperature_scale": scale,
        "rope.scaling.original_context_length": rope.size("original_max_position_embeddings"),
    }
