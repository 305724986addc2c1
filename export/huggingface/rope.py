"""Reads the rotary positions of a Hugging Face model: ``rope_parameters``, or the older fields."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgedec.core.errors import UnsupportedError
from edgedec.core.quick_dataclass import dataclass
from edgedec.export.architectures import Architecture
from edgedec.export.blocks.rotary import ROPE_FACTORS, SHORT_FACTORS
from edgedec.export.fields import Fields

_NEVER = 1e30
"""Divisor of frequencies that stands for 0 in GGUF files."""


@dataclass(frozen=True, slots=True)
class Rope:
    """Rotary positions as in a GGUF file: metadata without the architecture's name, and tensors."""

    metadata: dict[str, Any]
    factors: Mapping[str, NDArray[np.float32]] = field(default_factory=dict)


def read_rope(config: Fields, head_dim: int, context: int, base: float, architecture: Architecture) -> Rope:
    """Read and check the rotary positions.

    Raises BadFileError for impossible values, UnsupportedError for unknown scalings.
    """
    rope, local = _parameters(config)
    metadata: dict[str, Any] = {"rope.freq_base": rope.positive("rope_theta", base)}
    if architecture.local_rope_base is not None:
        metadata["rope.freq_base_swa"] = local.positive("rope_theta", architecture.local_rope_base)
        if _kind(local) != "default":
            raise UnsupportedError("rope scaling in sliding windows is not supported")
    partial = rope.positive("partial_rotary_factor", config.positive("partial_rotary_factor", 1.0))
    kind = _kind(rope)
    if kind == "proportional":
        metadata["rope.dimension_count"] = head_dim
        return Rope(metadata, {ROPE_FACTORS: _proportional(rope, head_dim, partial)})
    metadata["rope.dimension_count"] = max(int(head_dim * partial), 1)
    if kind == "llama3":
        factors = _llama3_factors(rope, metadata["rope.freq_base"], head_dim)
        return Rope(metadata, {ROPE_FACTORS: factors})
    if kind == "longrope" and architecture.long_rope:
        return _long_rope(rope, config, metadata, context)
    if kind != "default":
        metadata["rope.scaling.type"] = kind
    if kind == "yarn" and architecture.yarn:
        return Rope(metadata | _yarn(rope, context, architecture.yarn_whole_pairs))
    if kind == "linear":
        metadata["rope.scaling.factor"] = rope.positive("factor")
    return Rope(metadata)


def _parameters(config: Fields) -> tuple[Fields, Fields]:
    """Return the parameters of layers without and with a window."""
    rope = config.object("rope_parameters")
    if "full_attention" in rope.data or "sliding_attention" in rope.data:
        return rope.object("full_attention"), rope.object("sliding_attention")
    if rope.data:
        return rope, rope
    scaling = config.object("rope_scaling")
    old = {"rope_theta": config.data.get("rope_theta"), **scaling.data}
    local = {"rope_theta": config.data.get("rope_local_base_freq")}
    return Fields(scaling.where, old), Fields(config.where, local)


def _kind(rope: Fields) -> str:
    kind = rope.text("rope_type", rope.text("type", "default"))
    return "longrope" if kind == "su" else kind


def _proportional(rope: Fields, head_dim: int, partial: float) -> NDArray[np.float32]:
    """Return the divisors f32[d/2] with which the first pairs rotate as in a whole head, the others never."""
    if rope.positive("factor", 1.0) != 1.0:
        raise UnsupportedError("a factor of proportional rotary positions is not supported")
    rotated = int(partial * head_dim // 2)
    return np.where(np.arange(head_dim // 2) < rotated, 1.0, _NEVER).astype(np.float32)


def _long_rope(rope: Fields, config: Fields, metadata: dict[str, Any], context: int) -> Rope:
    """Return LongRoPE up to the original context (transformers' ``_compute_longrope_parameters``)."""
    whole = config.size("original_max_position_embeddings", context)
    original = rope.size("original_max_position_embeddings", whole)
    stretch = context / original
    natural = 1.0 if stretch <= 1 else math.sqrt(1 + math.log(stretch) / math.log(original))
    metadata["rope.scaling.attn_factor"] = rope.positive("attention_factor", natural)
    metadata["rope.scaling.original_context_length"] = original
    factors = np.asarray(
        rope.numbers("short_factor", metadata["rope.dimension_count"] // 2), dtype=np.float32
    )
    return Rope(metadata, {SHORT_FACTORS: factors})


def _yarn(rope: Fields, context: int, whole_pairs: bool) -> dict[str, Any]:
    """Return the keys of YaRN. ``mscale`` is 1 in a GGUF file, as in the models that use it."""
    original = rope.size("original_max_position_embeddings")
    factor, strength = rope.positive("factor", context / original), rope.number("mscale_all_dim", 0.0)
    strength = strength if rope.number("mscale", 0.0) else 0.0
    if strength and rope.number("mscale") != 1:
        raise UnsupportedError("an mscale of YaRN other than 1 is not supported")
    if rope.data.get("attention_factor") is not None or rope.flag("truncate", True) != whole_pairs:
        raise UnsupportedError("attention_factor of YaRN, or another truncate, is not supported")
    return {
        "rope.scaling.factor": factor,
        "rope.scaling.original_context_length": original,
        "rope.scaling.yarn_beta_fast": rope.number("beta_fast", 0.0) or 32.0,
        "rope.scaling.yarn_beta_slow": rope.number("beta_slow", 0.0) or 1.0,
        "rope.scaling.yarn_log_multiplier": strength,
    }


def _llama3_factors(rope: Fields, base: float, head_dim: int) -> NDArray[np.float32]:
    """Return the divisors f32[d/2] of Llama 3.1 (transformers' ``_compute_llama3_parameters``).

    They are 1 for high frequencies, ``factor`` for low ones, and a blend between.
    """
    factor, context = rope.positive("factor"), rope.positive("original_max_position_embeddings")
    low, high = rope.positive("low_freq_factor"), rope.positive("high_freq_factor")
    if not low < high or math.isinf(factor):
        raise UnsupportedError("low_freq_factor in config.json is not below high_freq_factor")
    wavelengths = 2 * math.pi * base ** (np.arange(0, head_dim, 2, dtype=np.float64) / head_dim)
    smooth = np.clip((context / wavelengths - low) / (high - low), 0.0, 1.0)
    return (1.0 / ((1.0 - smooth) / factor + smooth)).astype(np.float32)
