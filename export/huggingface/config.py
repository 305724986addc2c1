"""Translates config.json of a Hugging Face model into the metadata of a GGUF file of that model."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgedec.core.errors import UnsupportedError
from edgedec.core.quick_dataclass import dataclass
from edgedec.export.architectures import ARCHITECTURES, NO_OPS, Architecture
from edgedec.export.fields import Fields
from edgedec.export.huggingface.by_layer import sizes_by_layer
from edgedec.export.huggingface.conversion import SHORT_CONV, Conversions, delta_conversions
from edgedec.export.huggingface.hybrid import lfm2_fields, lfm2_keys, qwen35_fields, qwen35_keys
from edgedec.export.huggingface.ministral import ministral3_keys
from edgedec.export.huggingface.mixture import (
    gptoss_keys,
    granitemoe_keys,
    lfm2moe_keys,
    qwen3moe_keys,
    qwen35moe_fields,
    qwen35moe_keys,
)
from edgedec.export.huggingface.rope import read_rope
from edgedec.export.huggingface.windows import window_keys
from edgedec.export.metadata_keys import MetadataKeys
from edgedec.export.recurrent import delta_sizes


@dataclass(frozen=True, slots=True)
class Config:
    """A translated config.json.

    ``norm_offset`` is added to norm weights: Gemma's are stored without the 1. ``computed`` are tensors that
    a GGUF file has and a Hugging Face model does not.
    """

    architecture: Architecture
    metadata: Mapping[str, Any]
    vocab: int
    tied: bool
    """Whether the embedding is the head too."""
    norm_offset: float
    computed: Mapping[str, NDArray[np.float32]]
    layers: int = 0
    """Layers of the model, without those that predict further tokens."""
    conversions: Conversions = field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    """Begins of the names of tensors that belong to pictures or sound."""


@dataclass(frozen=True, slots=True)
class _Family:
    """Facts about a model type that stand in the code of transformers, not in config.json."""

    architecture: Architecture
    tied: bool = False
    rope_base: float = 10000.0
    norm_offset: float = 0.0
    fields: Callable[[Mapping[str, Any]], Mapping[str, Any]] = dict
    """The fields of config.json, with the family's own names and defaults."""
    keys: Callable[[Fields], dict[str, Any]] | None = None
    """Keys of a GGUF file beside the usual ones; None: those of windows."""
    quantised: str = ""
    """Name of a quantisation whose weights are taken as they are."""


FAMILIES: dict[str, _Family] = {
    # Only GGUF files of llama models permute the rows of q and k.
    "llama": _Family(replace(ARCHITECTURES["llama"], interleaved=False)),
    "qwen2": _Family(ARCHITECTURES["qwen2"]),
    "qwen3": _Family(ARCHITECTURES["qwen3"]),
    "qwen3_vl_text": _Family(ARCHITECTURES["qwen3vl"], rope_base=5e5),
    "phi3": _Family(ARCHITECTURES["phi3"]),
    "smollm3": _Family(replace(ARCHITECTURES["smollm3"], interleaved=False), tied=True, rope_base=2e6),
    "ministral3": _Family(
        replace(ARCHITECTURES["mistral3"], interleaved=False), rope_base=1e6, keys=ministral3_keys
    ),
    "gemma2": _Family(ARCHITECTURES["gemma2"], tied=True, norm_offset=1.0),
    "gemma3_text": _Family(ARCHITECTURES["gemma3"], tied=True, rope_base=1e6, norm_offset=1.0),
    "gemma4_text": _Family(ARCHITECTURES["gemma4"], tied=True, rope_base=1e6),
    "qwen3_5_text": _Family(ARCHITECTURES["qwen35"], norm_offset=1.0, fields=qwen35_fields, keys=qwen35_keys),
    "lfm2": _Family(ARCHITECTURES["lfm2"], tied=True, rope_base=1e6, fields=lfm2_fields, keys=lfm2_keys),
    "qwen3_moe": _Family(ARCHITECTURES["qwen3moe"], keys=qwen3moe_keys),
    "lfm2_moe": _Family(
        ARCHITECTURES["lfm2moe"], tied=True, rope_base=1e6, fields=lfm2_fields, keys=lfm2moe_keys
    ),
    "granitemoe": _Family(replace(ARCHITECTURES["granitemoe"], interleaved=False), keys=granitemoe_keys),
    "qwen3_5_moe_text": _Family(
        ARCHITECTURES["qwen35moe"], norm_offset=1.0, fields=qwen35moe_fields, keys=qwen35moe_keys
    ),
    "gpt_oss": _Family(ARCHITECTURES["gpt-oss"], rope_base=150000.0, keys=gptoss_keys, quantised="mxfp4"),
}
_PIXTRAL = tuple(
    f"{begin}{part}." for begin in ("model.", "") for part in ("vision_tower", "multi_modal_projector")
)
_TOWERS = ("vision_tower", "audio_tower", "embed_vision", "embed_audio")
_SEEING = {
    "qwen3_5": ("qwen3_5_text", ("model.visual.",)),
    "qwen3_5_moe": ("qwen3_5_moe_text", ("model.visual.",)),
    "qwen3_vl": ("qwen3_vl_text", ("model.visual.",)),
    "mistral3": ("ministral3", _PIXTRAL),
    "gemma4": ("gemma4_text", tuple(f"model.{part}." for part in _TOWERS)),
    "lfm2_vl": ("lfm2", ("model.vision_tower.", "model.multi_modal_projector.")),
}
"""Models that see or hear: the type of their text part, and begins of the names of tensors to leave out."""
_REFUSED = {
    "gemma3": "the text-only models, gemma3_text, are supported",
    "qwen3_vl_moe": "the dense models, qwen3_vl, are supported",
    "qwen3_vl_moe_text": "the dense models, qwen3_vl, are supported",
    "granitemoehybrid": f"{NO_OPS['granitehybrid']}; llama.cpp runs GGUF files of it",
    "gemma3n": f"{NO_OPS['gemma3n']}; llama.cpp runs GGUF files of it",
    "gemma3n_text": f"{NO_OPS['gemma3n']}; llama.cpp runs GGUF files of it",
}
_ACTIVATIONS = {
    "silu": ("silu",),
    "clamped_silu": ("silu",),
    "gelu_tanh": ("gelu_pytorch_tanh", "gelu_new"),
}
_SOFTCAPS = ("attn_logit_softcapping", "final_logit_softcapping")


def read_config(data: Mapping[str, Any]) -> Config:
    """Translate and check config.json.

    Raises BadFileError for a missing or impossible value, UnsupportedError for one that the graph cannot
    express.
    """
    data, left_out = _text_part(data)
    family = _family(Fields("config.json", data))
    data = family.fields(data)
    fields = Fields("config.json", data)
    architecture = family.architecture
    heads = fields.size("num_attention_heads")
    hidden = fields.size("hidden_size")
    head_dim = fields.size("head_dim", max(hidden // heads, 1))
    context = fields.size("max_position_embeddings")
    _check_layers_without_rope(fields, architecture)
    own = family.keys(fields) if family.keys else window_keys(fields, architecture)
    if architecture.sizes_by_layer:
        own |= sizes_by_layer(fields, _pattern(fields, own))
    whole = own.get("attention.key_length", head_dim)
    rope = read_rope(fields, whole, context, family.rope_base, architecture)
    values: dict[str, Any] = {
        "block_count": fields.layers,
        "embedding_length": hidden,
        "feed_forward_length": fields.size("intermediate_size"),
        "attention.head_count": heads,
        "attention.head_count_kv": fields.size("num_key_value_heads", heads),
        "attention.key_length": head_dim,
        "context_length": context,
        "attention.layer_norm_rms_epsilon": fields.number("rms_norm_eps"),
        **_attention_scale(fields),
        **rope.metadata,
        **own,
    }
    values |= {key: 0.0 if data[key] is None else fields.number(key) for key in _SOFTCAPS if key in data}
    return Config(
        architecture=architecture,
        metadata={f"{architecture.name}.{key}": value for key, value in values.items()},
        vocab=fields.size("vocab_size"),
        tied=fields.flag("tie_word_embeddings", family.tied),
        norm_offset=family.norm_offset,
        computed=rope.factors,
        layers=fields.layers,
        conversions=_conversions(architecture, values),
        left_out=left_out,
    )


def _text_part(data: Mapping[str, Any]) -> tuple[Mapping[str, Any], tuple[str, ...]]:
    """Return the fields of the text part, and what to leave out of a model that sees."""
    kind, inner = data.get("model_type"), data.get("text_config")
    if not isinstance(kind, str) or kind not in _SEEING or not isinstance(inner, Mapping):
        return data, ()
    text, left_out = _SEEING[kind]
    outer = {key: data[key] for key in ("tie_word_embeddings", "quantization_config") if key in data}
    return {**inner, **outer, "model_type": inner.get("model_type") or text}, left_out


def _conversions(architecture: Architecture, values: Mapping[str, Any]) -> Conversions:
    if architecture.recurrent == "conv":
        return SHORT_CONV
    if architecture.recurrent != "delta":
        return {}
    keys = MetadataKeys(architecture.name, {f"{architecture.name}.{key}": one for key, one in values.items()})
    return delta_conversions(delta_sizes(keys))


def builds(data: Mapping[str, Any]) -> bool:
    """Return False for a model type that EdgeDec does not know; True if it builds or refuses it."""
    kind = data.get("model_type")
    return not isinstance(kind, str) or kind in (*FAMILIES, *_REFUSED, *_SEEING)


def check_unquantised(data: Mapping[str, Any], known: str = "") -> None:
    """Raise UnsupportedError for weights that another program has quantised, but in the ``known`` way."""
    stated = data.get("quantization_config")
    way = stated.get("quant_method") if isinstance(stated, Mapping) else None
    if stated is not None and (not known or way != known):
        raise UnsupportedError(
            "the model's weights are quantised already", hint="export its original weights, or a GGUF file"
        )


def _family(fields: Fields) -> _Family:
    """Return the family of a model after checking that its type and options are supported."""
    kind = fields.text("model_type")
    if kind not in FAMILIES:
        hint = _REFUSED.get(kind, f"supported are {', '.join(FAMILIES)}")
        raise UnsupportedError(f"model type {kind[:40]!r} is not supported", hint=hint)
    family = FAMILIES[kind]
    check_unquantised(fields.data, family.quantised)
    key = "hidden_activation" if fields.data.get("hidden_activation") is not None else "hidden_act"
    activation = fields.text(key, _ACTIVATIONS[family.architecture.activation][0])
    if activation not in _ACTIVATIONS[family.architecture.activation]:
        raise UnsupportedError(f"the activation {activation[:40]!r} is not supported in a {kind} model")
    if fields.data.get("use_bidirectional_attention") not in (None, False, "vision"):
        raise UnsupportedError("the model attends in both directions, which is not supported")
    return family


def _attention_scale(fields: Fields) -> dict[str, Any]:
    if fields.data.get("query_pre_attn_scalar") is None:
        return {}
    return {"attention.scale": 1.0 / math.sqrt(fields.positive("query_pre_attn_scalar"))}


def _check_layers_without_rope(fields: Fields, architecture: Architecture) -> None:
    """Refuse other layers without positions than those of ``architecture``."""
    if not (period := architecture.no_rope_period):
        return
    usual = [int((layer + 1) % period > 0) for layer in range(fields.layers)]
    stated = fields.data.get("no_rope_layers")  # 1 for layers that have positions
    if fields.size("no_rope_layer_interval", period) != period or stated not in (None, usual):
        raise UnsupportedError(
            f"layers without positions (no_rope_layers in config.json) are not every {period}th one",
            hint="other patterns are not supported",
        )


def _pattern(fields: Fields, windows: Mapping[str, Any]) -> list[bool]:
    """Return which layers have a window, from the keys that say so."""
    stated = windows["attention.sliding_window_pattern"]
    layers = range(fields.layers)
    return stated if isinstance(stated, list) else [(layer + 1) % stated > 0 for layer in layers]
