"""Reads config.json of models with recurrent layers: Qwen3.5 and LFM2."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from edgedec.core.errors import BadFileError, UnsupportedError
from edgedec.export.fields import Fields

_ROTATED = 0.25
"""Share of a head that Qwen3.5 rotates where config.json says nothing."""
_PERIOD = 4


def qwen35_fields(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the fields of config.json with the defaults of Qwen3.5."""
    stated = data.get("partial_rotary_factor")
    return {**data, "partial_rotary_factor": _ROTATED if stated is None else stated}


def qwen35_keys(fields: Fields) -> dict[str, Any]:
    """Return the keys of a GGUF file that only Qwen3.5 has."""
    if fields.flag("attention_bias", False):
        raise UnsupportedError("attention_bias in config.json is not supported")
    layers = fields.layers
    v_heads = fields.size("linear_num_value_heads", 32)
    nextn = fields.data.get("mtp_num_hidden_layers") or 0
    keys = {
        "full_attention_interval": _period(fields, layers),
        "ssm.conv_kernel": fields.size("linear_conv_kernel_dim", 4),
        "ssm.state_size": fields.size("linear_key_head_dim", 128),
        "ssm.group_count": fields.size("linear_num_key_heads", 16),
        "ssm.time_step_rank": v_heads,
        "ssm.inner_size": v_heads * fields.size("linear_value_head_dim", 128),
    }
    if nextn:
        count = fields.size("mtp_num_hidden_layers")
        keys |= {"block_count": layers + count, "nextn_predict_layers": count}
    return keys


def _period(fields: Fields, layers: int) -> int:
    """Return every how manyth layer has attention. Raises UnsupportedError for another pattern."""
    kinds = fields.data.get("layer_types")
    if kinds is None:
        return fields.size("full_attention_interval", _PERIOD)
    full = [kind == "full_attention" for kind in kinds] if isinstance(kinds, list) else []
    if len(full) != layers or not set(map(str, kinds)) <= {"full_attention", "linear_attention"}:
        raise BadFileError("layer_types in config.json does not fit the layers")
    period = full.index(True) + 1 if any(full) else layers + 1
    if full != [(layer + 1) % period == 0 for layer in range(layers)]:
        raise UnsupportedError(
            "the layers with attention (layer_types in config.json) are not every nth one",
            hint="other patterns are not supported",
        )
    return period


def lfm2_keys(fields: Fields) -> dict[str, Any]:
    """Return the keys of a GGUF file that LFM2 has beside the usual ones, or with other values."""
    if fields.flag("conv_bias", False):
        raise UnsupportedError("conv_bias in config.json is not supported")
    layers = fields.layers
    kinds = _lfm2_kinds(fields, layers)
    heads = fields.size("num_key_value_heads", 8)
    return {
        "attention.head_count_kv": [heads if kind == "full_attention" else 0 for kind in kinds],
        "feed_forward_length": _lfm2_ffn(fields),
        "shortconv.l_cache": fields.size("conv_L_cache", 3),
    }


def lfm2_fields(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the fields of config.json under the names that other models have, with the defaults of LFM2."""
    theirs = {
        "rms_norm_eps": "norm_eps",
        "tie_word_embeddings": "tie_embedding",
        "intermediate_size": "block_ff_dim",
    }
    renamed = {ours: data[name] for ours, name in theirs.items() if data.get(name) is not None}
    return {"rms_norm_eps": 1e-5, **data, **renamed}


def _lfm2_kinds(fields: Fields, layers: int) -> list[str]:
    kinds = fields.data.get("layer_types")
    if kinds is None:
        chosen = fields.data.get("full_attn_idxs")
        full = range(layers) if chosen is None else chosen
        if not isinstance(full, list | range):
            raise BadFileError("full_attn_idxs in config.json is not a list")
        kinds = ["full_attention" if layer in full else "conv" for layer in range(layers)]
    if not isinstance(kinds, list) or len(kinds) != layers:
        raise BadFileError("layer_types in config.json does not fit the layers")
    if not set(map(str, kinds)) <= {"full_attention", "conv"}:
        raise UnsupportedError("config.json has layers of another kind than attention and convolution")
    return kinds


def _lfm2_ffn(fields: Fields) -> int:
    """Return the width of the MLP, which config.json states before an adjustment."""
    width = fields.size("intermediate_size", 12288)
    if not fields.flag("block_auto_adjust_ff_dim", True):
        return width
    width = int(fields.positive("block_ffn_dim_multiplier", 1.0) * int(2 * width / 3))
    multiple = fields.size("block_multiple_of", 256)
    return -(-width // multiple) * multiple
