"""Translates the sizes that differ between layers of a Gemma 4: heads, shared keys, wide MLPs, experts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from edgedec.core.errors import BadFileError, UnsupportedError
from edgedec.export.fields import Fields
from edgedec.export.huggingface.mixture import gemma4_keys

_WHOLE_HEAD_DIM = 512
"""Size of the heads of full attention, where nothing states it."""


def sizes_by_layer(fields: Fields, windows: Sequence[bool]) -> dict[str, Any]:
    """Return the keys of a GGUF file; ``windows`` says which layers have a window.

    Raises BadFileError for an impossible value, UnsupportedError for one that the graph cannot express.
    """
    _check(fields)
    layers, ffn = len(windows), fields.size("intermediate_size")
    shared = int(fields.number("num_kv_shared_layers", 0))
    first = layers - shared if fields.flag("use_double_wide_mlp", False) else layers
    head_dim, kv_heads = _whole_heads(fields, windows)
    local = fields.size("num_key_value_heads")
    return {
        "feed_forward_length": [ffn if layer < first else 2 * ffn for layer in range(layers)],
        "attention.head_count_kv": [local if window else kv_heads for window in windows],
        "attention.key_length": head_dim,
        "attention.key_length_swa": fields.size("head_dim"),
        "attention.shared_kv_layers": shared,
        "embedding_length_per_layer_input": int(fields.number("hidden_size_per_layer_input", 0)),
        **gemma4_keys(fields),
    }


def _whole_heads(fields: Fields, windows: Sequence[bool]) -> tuple[int, int]:
    """Return the size of the heads of layers without a window, and the number of their key heads.

    Files state them for all such layers, or as saved by transformers for each layer that differs.
    """
    stated = fields.object("per_layer_config")
    kv_heads = fields.size("num_key_value_heads")
    if not stated.data:
        alike = fields.flag("attention_k_eq_v", False)
        return (
            fields.size("global_head_dim", _WHOLE_HEAD_DIM),
            fields.size("num_global_key_value_heads", kv_heads) if alike else kv_heads,
        )
    whole = [stated.object(str(layer)) for layer, window in enumerate(windows) if not window]
    found = {
        (one.size("head_dim", fields.size("head_dim")), one.size("num_key_value_heads", kv_heads))
        for one in whole
    }
    others = stated.data.keys() - {str(layer) for layer, window in enumerate(windows) if not window}
    if len(found) != 1 or others:
        raise UnsupportedError("per_layer_config in config.json differs between layers of one kind")
    return found.pop()


def _check(fields: Fields) -> None:
    if not fields.object("rope_parameters").data:
        raise BadFileError(f"{fields.where} lacks rope_parameters", hint="download the model again")
    if fields.flag("attention_bias", False):
        raise UnsupportedError("the model has biases of attention (attention_bias), which are not supported")
