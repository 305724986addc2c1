"""Reads what config.json says of experts, as the keys of a GGUF file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from edgedec.core.errors import BadFileError, UnsupportedError
from edgedec.export.architectures import ARCHITECTURES
from edgedec.export.fields import Fields
from edgedec.export.huggingface.hybrid import lfm2_keys, qwen35_fields, qwen35_keys
from edgedec.export.huggingface.windows import window_keys

_SOFTMAX, _SIGMOID = 1, 2


def qwen3moe_keys(fields: Fields) -> dict[str, Any]:
    """Return the keys of Qwen3 with experts."""
    if fields.flag("use_sliding_window", False):
        raise UnsupportedError("a sliding window in qwen3moe models is not supported")
    return {
        **_keys(fields, fields.size("moe_intermediate_size")),
        "expert_weights_norm": fields.flag("norm_topk_prob", False),
        "leading_dense_block_count": _dense(fields),
    }


def lfm2moe_keys(fields: Fields) -> dict[str, Any]:
    """Return the keys of LFM2 with experts, whose dense layers have the width that config.json states."""
    return {
        **lfm2_keys(fields),
        **_keys(fields, fields.size("moe_intermediate_size")),
        "feed_forward_length": fields.size("intermediate_size"),
        "leading_dense_block_count": int(fields.number("num_dense_layers", 2)),
        "expert_gating_func": _SIGMOID,
        "expert_choice_bias": fields.flag("use_expert_bias", True),
        "expert_weights_norm": fields.flag("norm_topk_prob", True),
        "expert_weights_scale": fields.positive("routed_scaling_factor", 1.0),
    }


def granitemoe_keys(fields: Fields) -> dict[str, Any]:
    """Return the keys of Granite with experts. Biases of attention are tensors that nothing uses."""
    return {
        **_keys(fields, fields.size("intermediate_size")),
        "attention.scale": fields.positive("attention_multiplier", 1.0),
        "embedding_scale": fields.positive("embedding_multiplier", 1.0),
        "residual_scale": fields.positive("residual_multiplier", 1.0),
        "logit_scale": fields.positive("logits_scaling", 1.0),
    }


def gptoss_keys(fields: Fields) -> dict[str, Any]:
    """Return the keys of gpt-oss, whose activation has constants that its kernel has too."""
    for key, constant in (("swiglu_alpha", 1.702), ("swiglu_limit", 7.0)):
        if fields.number(key, constant) != constant:
            raise UnsupportedError(f"{key} in {fields.where} is another one than {constant}")
    if not fields.flag("attention_bias", True):
        raise UnsupportedError("gpt-oss models without biases of attention are not supported")
    return {
        **window_keys(fields, ARCHITECTURES["gpt-oss"]),
        **_keys(fields, fields.size("intermediate_size")),
    }


def qwen35moe_fields(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the fields of config.json with the defaults of Qwen3.5, whose layers have no dense MLP."""
    return {"intermediate_size": data.get("moe_intermediate_size"), **qwen35_fields(data)}


def qwen35moe_keys(fields: Fields) -> dict[str, Any]:
    """Return the keys of Qwen3.5 with experts."""
    return {
        **qwen35_keys(fields),
        **_keys(fields, fields.size("moe_intermediate_size")),
        "expert_shared_feed_forward_length": fields.size("shared_expert_intermediate_size"),
    }


def gemma4_keys(fields: Fields) -> dict[str, Any]:
    """Return the keys of Gemma 4's experts; none for a model without, whose other keys are the same."""
    if not fields.flag("enable_moe_block", False):
        return {}
    return _keys(fields, fields.size("moe_intermediate_size"), chosen="top_k_experts")


def _keys(fields: Fields, width: int, chosen: str = "num_experts_per_tok") -> dict[str, Any]:
    """Return the keys that all have; the number of experts goes by two names."""
    count = "num_experts" if fields.data.get("num_experts") is not None else "num_local_experts"
    return {
        "expert_count": fields.size(count),
        "expert_used_count": fields.size(chosen),
        "expert_feed_forward_length": width,
        "expert_gating_func": _SOFTMAX,
    }


def _dense(fields: Fields) -> int:
    """Return how many of the first layers have no experts. Raises UnsupportedError for another pattern."""
    layers, step = fields.layers, fields.size("decoder_sparse_step", 1)
    stated = fields.data.get("mlp_only_layers") or []
    if not isinstance(stated, list):
        raise BadFileError("mlp_only_layers in config.json is not a list")
    sparse = [layer not in stated and (layer + 1) % step == 0 for layer in range(layers)]
    dense = sparse.index(True) if any(sparse) else layers
    if not all(sparse[dense:]):
        raise UnsupportedError(
            "layers without experts (mlp_only_layers and decoder_sparse_step) are not the first ones",
            hint="other patterns are not supported",
        )
    return dense
