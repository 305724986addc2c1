"""Sizes of an assistant of Gemma 4, from config.json or from the metadata of a GGUF file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from edgedec.core.errors import BadFileError, UnsupportedError
from edgedec.core.quick_dataclass import dataclass
from edgedec.export.fields import Fields
from edgedec.export.metadata_keys import MetadataKeys

ARCHITECTURE, MODEL_TYPE = "gemma4-assistant", "gemma4_assistant"
CENTROIDS, CHOSEN = 2048, 32
"""Clusters of the vocabulary, and how many of them a step scores, where the file does not say it."""
_MOST_LAYERS = 64
_LOCAL, _WHOLE = "sliding_attention", "full_attention"


@dataclass(frozen=True, slots=True)
class AssistantSizes:
    """Sizes in elements. ``windows[i]``: whether layer i sees only the newest tokens."""

    target_hidden: int
    hidden: int
    ffn: int
    heads: int
    head_dim: int
    """Size of heads of layers that see all tokens."""
    local_head_dim: int
    windows: tuple[bool, ...]
    window: int
    """Tokens that layers with a window see."""
    epsilon: float
    rope_base: float
    rotary_dim: int
    """Elements of a head that turn, in layers that see all tokens; in the others all do."""
    local_rope_base: float
    centroids: int
    """Clusters of the vocabulary; 0: a step scores all of it."""
    chosen: int
    """Clusters that a step scores."""


def from_config(data: Mapping[str, Any]) -> AssistantSizes:
    """Read config.json. Raises BadFileError or UnsupportedError."""
    top = Fields("config.json", data)
    if data.get("model_type") != MODEL_TYPE:
        raise UnsupportedError(f"config.json is no assistant of Gemma 4: {str(data.get('model_type'))[:40]}")
    text = top.object("text_config")
    layers = text.size("num_hidden_layers")
    kinds = text.data.get("layer_types")
    if not isinstance(kinds, list) or len(kinds) != layers or not set(map(str, kinds)) <= {_LOCAL, _WHOLE}:
        raise BadFileError("layer_types in config.json does not fit the layers of the assistant")
    if text.data.get("hidden_size_per_layer_input"):
        raise UnsupportedError("an assistant with embeddings per layer is not supported")
    rope = text.object("rope_parameters")
    whole, local = rope.object(_WHOLE), rope.object(_LOCAL)
    head_dim = text.size("head_dim", 256)
    wide = text.size("global_head_dim", head_dim)
    share = whole.positive("partial_rotary_factor", 1.0)
    ordered = top.flag("use_ordered_embeddings", False)
    return AssistantSizes(
        target_hidden=top.size("backbone_hidden_size", 1536),
        hidden=text.size("hidden_size"),
        ffn=text.size("intermediate_size"),
        heads=text.size("num_attention_heads"),
        head_dim=wide,
        local_head_dim=head_dim,
        windows=tuple(kind == _LOCAL for kind in kinds),
        window=text.size("sliding_window", 512),
        epsilon=text.positive("rms_norm_eps", 1e-6),
        rope_base=whole.positive("rope_theta", 1e6),
        rotary_dim=2 * int(share * wide // 2),
        local_rope_base=local.positive("rope_theta", 1e4),
        centroids=top.size("num_centroids", CENTROIDS) if ordered else 0,
        chosen=top.size("centroid_intermediate_top_k", CHOSEN),
    )


def from_metadata(metadata: Mapping[str, Any], centroids: int, rotary_dim: int) -> AssistantSizes:
    """Read the metadata of a GGUF file.

    ``centroids`` and ``rotary_dim`` are facts of its tensors. Raises BadFileError or UnsupportedError.
    """
    if metadata.get("general.architecture") != ARCHITECTURE:
        raise UnsupportedError("the GGUF file is no assistant of Gemma 4")
    keys = MetadataKeys(ARCHITECTURE, metadata)
    layers = keys.size("block_count", most=_MOST_LAYERS)
    pattern = keys.get("attention.sliding_window_pattern")
    if not isinstance(pattern, list) or len(pattern) != layers:
        raise BadFileError("attention.sliding_window_pattern of the assistant does not fit its layers")
    head_dim = keys.size("attention.key_length")
    target = keys.get("n_embd_backbone")
    return AssistantSizes(
        target_hidden=keys.size("embedding_length_out", target if isinstance(target, int) else None),
        hidden=keys.size("embedding_length"),
        ffn=_same(keys, "feed_forward_length", layers),
        heads=_same(keys, "attention.head_count", layers),
        head_dim=head_dim,
        local_head_dim=keys.size("attention.key_length_swa", head_dim),
        windows=tuple(bool(one) for one in pattern),
        window=keys.size("attention.sliding_window", 512),
        epsilon=keys.number("attention.layer_norm_rms_epsilon", 1e-6),
        rope_base=keys.number("rope.freq_base", 1e6),
        rotary_dim=rotary_dim or head_dim,
        local_rope_base=keys.number("rope.freq_base_swa", 1e4),
        centroids=centroids,
        chosen=CHOSEN,
    )


def _same(keys: MetadataKeys, key: str, layers: int) -> int:
    """Return a size that may stand for each layer, and must be the same for all."""
    value = keys.get(key)
    if not isinstance(value, list):
        return keys.size(key)
    if len(value) != layers or len(set(map(str, value))) != 1:
        raise UnsupportedError(f"{key} of the assistant differs between its layers")
    return MetadataKeys(ARCHITECTURE, {f"{ARCHITECTURE}.{key}": value[0]}).size(key)
