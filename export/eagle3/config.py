"""Reads config.json of an EAGLE-3 head: SpecForge's and AngelSlim's layout, and that of speculators.

Layers are counted in two ways. ``eagle_aux_hidden_state_layer_ids`` at the top (speculators, vLLM) and in
GGUF files names layers by what they read; within ``eagle_config`` (SpecForge, SGLang, ModelOpt), and as
``aux_hidden_states_layer_ids`` (AngelSlim), by what they write. Here it is the latter. Where a config names
none, all of these trainers read the same three.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgedec.bundle.head_facts import CONTEXT, TAPS
from edgedec.core.errors import BadFileError, UnsupportedError
from edgedec.core.quick_dataclass import dataclass
from edgedec.export.architectures import ARCHITECTURES
from edgedec.export.blocks.rotary import ROPE_FACTORS
from edgedec.export.fields import Fields
from edgedec.export.huggingface.config import check_unquantised
from edgedec.export.huggingface.rope import read_rope

SPECULATORS, ANGELSLIM, SPECFORGE = "speculators", "AngelSlim", "SpecForge"
_ARCHITECTURES = {
    "LlamaForCausalLMEagle3": SPECFORGE,
    "LlamaEagle3DraftModel": SPECFORGE,
    "Eagle3LlamaForCausalLM": ANGELSLIM,
    "Eagle3Speculator": SPECULATORS,
    "Eagle3DraftModel": SPECULATORS,
}
_READ, _WRITTEN = "eagle_aux_hidden_state_layer_ids", "aux_hidden_states_layer_ids"
_CONTEXT = 2048
_MOST_LAYERS = 1 << 12


@dataclass(frozen=True, slots=True)
class Eagle3Config:
    """A config.json, checked. ``taps`` are layers of the target by what they write."""

    layout: str
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    rope_base: float
    rope_factors: NDArray[np.float32] | None
    epsilon: float
    taps: tuple[int, ...]
    stated: bool
    """Whether the file names the layers, or they are the usual ones."""
    vocab: int
    norms_taps: bool
    """Whether it norms what it reads of the target."""
    norm_before_residual: bool
    norm_output: bool
    trained_for: str = ""
    """The target, where the file names it."""


def is_eagle3(data: Mapping[str, Any]) -> bool:
    """Return whether config.json is one of an EAGLE-3 head."""
    return data.get("speculators_model_type") == "eagle3" or _layout(data) is not None


def usual_taps(layers: int) -> tuple[int, ...]:
    """Return the layers that heads read whose config names none: those before layers 2, n / 2 and n - 3."""
    return 1, layers // 2 - 1, layers - 4


def read_config(data: Mapping[str, Any], layers: int) -> Eagle3Config:
    """Read config.json of a head for a target of ``layers`` layers.

    Raises BadFileError for a missing or impossible value, UnsupportedError for what the graph cannot express.
    """
    top = Fields("config.json", data)
    layout = _layout(data)
    if data.get("speculators_model_type", "eagle3") != "eagle3" or layout is None:
        raise UnsupportedError(
            "config.json is not that of an EAGLE-3 head", hint=f"known are {', '.join(_ARCHITECTURES)}"
        )
    check_unquantised(data)
    layer = top.object("transformer_layer_config") if layout == SPECULATORS else top
    options = Fields(top.where, {**data, **top.object("eagle_config").data})
    _check_layer(layer)
    heads = layer.size("num_attention_heads")
    head_dim = layer.size("head_dim", max(layer.size("hidden_size") // heads, 1))
    base, factors = _rotary(layer, head_dim)
    taps = _taps(data, layers)
    verifier = top.object("speculators_config").object("verifier")
    return Eagle3Config(
        layout=layout,
        heads=heads,
        kv_heads=layer.size("num_key_value_heads", heads),
        head_dim=head_dim,
        ffn=layer.size("intermediate_size"),
        rope_base=base,
        rope_factors=factors,
        epsilon=layer.positive("rms_norm_eps", 1e-6),
        taps=taps or usual_taps(layers),
        stated=bool(taps),
        vocab=layer.size("vocab_size"),
        norms_taps=options.flag("norm_before_fc", False) or options.flag("fc_norm", False),
        norm_before_residual=options.flag("norm_before_residual", False),
        norm_output=options.flag("norm_output", False),
        trained_for=verifier.text("name_or_path", "")[:100],
    )


def _layout(data: Mapping[str, Any]) -> str | None:
    if "speculators_model_type" in data:
        return SPECULATORS
    named = data.get("architectures")
    first = named[0] if isinstance(named, list) and named else None
    if isinstance(first, str) and first in _ARCHITECTURES:
        return _ARCHITECTURES[first]
    one_layer = data.get("num_hidden_layers") == 1 and data.get("draft_vocab_size") is not None
    return SPECFORGE if one_layer else None  # as the first heads of the paper's authors


def _check_layer(layer: Fields) -> None:
    """Refuse layers of another kind."""
    if (count := layer.size("num_hidden_layers", 1)) != 1:
        raise UnsupportedError(f"the head has {count} layers, and only heads of one layer are supported")
    if (activation := layer.text("hidden_act", "silu")) != "silu":
        raise UnsupportedError(f"the activation {activation[:40]!r} is not supported in a head")
    sliding = layer.flag("use_sliding_window", False)
    sliding = sliding or "sliding_attention" in (layer.data.get("layer_types") or ())
    if sliding and layer.size("sliding_window", CONTEXT) < CONTEXT:
        raise UnsupportedError("a head with a sliding window is not supported")


def _rotary(layer: Fields, head_dim: int) -> tuple[float, NDArray[np.float32] | None]:
    """Return the base of the frequencies, and what divides them."""
    context = layer.size("max_position_embeddings", _CONTEXT)
    rope = read_rope(_text_only(layer), head_dim, context, 10000.0, ARCHITECTURES["llama"])
    if rope.metadata["rope.dimension_count"] != head_dim:
        raise UnsupportedError("a head that rotates a part of its queries is not supported")
    kind = rope.metadata.get("rope.scaling.type", "default")
    if kind == "linear":
        factor = rope.metadata["rope.scaling.factor"]
        return rope.metadata["rope.freq_base"], np.full(head_dim // 2, factor, np.float32)
    if kind != "default":
        raise UnsupportedError(f"rope scaling of the kind {kind[:40]!r} is not supported in a head")
    return rope.metadata["rope.freq_base"], rope.factors.get(ROPE_FACTORS)


def _text_only(layer: Fields) -> Fields:
    """Return the fields with plain positions for those in sections: text has the same in each."""
    scaling = layer.object("rope_scaling").data
    if scaling.get("rope_type", scaling.get("type")) not in ("mrope", "default"):
        return layer
    return Fields(layer.where, {**layer.data, "rope_scaling": None})


def _taps(data: Mapping[str, Any], layers: int) -> tuple[int, ...]:
    """Return the layers that the file names, by what they write; none where it names none."""
    inner = data.get("eagle_config")
    for found, back in (
        (data.get(_READ), 1),
        (inner.get(_READ) if isinstance(inner, dict) else None, 0),
        (data.get(_WRITTEN), 0),
    ):
        if found is not None:
            return checked_taps(found, back, layers)
    return ()


def checked_taps(found: object, back: int, layers: int) -> tuple[int, ...]:
    """Return layers by what they write: ``back`` is taken from each.

    Raises BadFileError, or UnsupportedError for other than three layers of the target.
    """
    numbers = isinstance(found, list) and all(type(one) is int and 0 <= one < _MOST_LAYERS for one in found)
    if not isinstance(found, list) or not numbers:
        raise BadFileError(f"{_READ} is {ascii(found)[:40]}, not a list of layers")
    taps = tuple(one - back for one in found)
    if len(taps) != TAPS or min(taps) < 0:
        raise UnsupportedError(f"the head reads layers {found}, and only heads that read three are supported")
    if max(taps) >= layers:
        raise UnsupportedError(f"the head reads layers {found}, and the model has {layers}")
    return taps
