"""Reads the sizes and constants of a model from GGUF metadata or its equivalent."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from edgedec.core.cache_kinds import Keys, States
from edgedec.core.errors import BadFileError, UnsupportedError
from edgedec.core.quick_dataclass import dataclass
from edgedec.export.architectures.base import Architecture
from edgedec.export.experts import ExpertSizes, read_experts
from edgedec.export.fields import MOST_LAYERS
from edgedec.export.layer_sizes import LayerSizes, read_layer_sizes
from edgedec.export.metadata_keys import MetadataKeys
from edgedec.export.model import CACHE, RINGS
from edgedec.export.recurrent import (
    ATTENTION,
    ConvSizes,
    DeltaSizes,
    Recurrent,
    key_heads,
    nextn_layers,
    read_recurrent,
)
from edgedec.export.yarn import Yarn, read_yarn

_MOST_HEAD_DIM = 1 << 20
# Keys that change the arithmetic beyond what the graph can express, and their neutral values.
_REFUSED: dict[str, tuple[Any, ...]] = {
    "expert_count": (0,),
    "expert_group_count": (0, 1),
    "expert_group_used_count": (0, 1),
    "attention.clamp_kqv": (0.0,),
    "attention.causal": (True,),
    "attn_logit_softcapping": (0.0,),
    "final_logit_softcapping": (0.0,),
    "embedding_scale": (1.0, 0.0),
    "residual_scale": (1.0, 0.0),
    "logit_scale": (1.0, 0.0),
    "rope.scaling.attn_factor": (1.0, 0.0),
    "rope.scaling.yarn_attn_factor": (1.0,),
    "rope.scaling.yarn_ext_factor": (1.0,),
    "attention.temperature_scale": (0.0,),
    "attention.temperature_length": (0,),
}


@dataclass(frozen=True, slots=True)
class Hyperparameters:
    """Sizes in elements. ``windows[i]`` is layer i's attention window in tokens, 0 for none."""

    architecture: Architecture
    layers: int
    hidden: int
    ffn: int
    heads: int
    kv_heads: int
    head_dim: int
    rotary_dim: int
    """Elements of a head that are rotated, from its first on."""
    context: int
    epsilon: float
    attention_scale: float
    rotary_scale: float
    """Factor on sines and cosines. Where they turn whole heads, ``attention_scale`` has it instead."""
    rope_base: float
    rope_divisor: float
    """Linear rope scaling: divisor of the frequencies of layers without a window."""
    local_rope_base: float | None
    windows: tuple[int, ...]
    attention_softcap: float = 0.0
    final_softcap: float = 0.0
    recurrent: Recurrent | None = None
    """The layers that are no attention; None: there are none."""
    nextn: int = 0
    """Layers behind the others that predict further tokens; the graph leaves them out."""
    yarn: Yarn | None = None
    """Scaling of the rotary positions; None: none, or a linear one."""
    by_layer: LayerSizes | None = None
    """Sizes that differ between layers; None: all layers are alike but for their windows."""
    experts: ExpertSizes | None = None
    """The experts of layers that have some; None: all have an MLP."""
    embedding_scale: float = 1.0
    """Factor on embeddings."""
    residual_scale: float = 1.0
    """Factor on what attention and experts add to the hidden states."""
    logit_scale: float = 1.0
    """Divisor of the logits."""

    def mixer(self, layer: int) -> str:
        """Return what mixes the tokens of a layer: attention, or a recurrent kind."""
        return self.recurrent.kinds[layer] if self.recurrent else ATTENTION

    @property
    def delta(self) -> DeltaSizes:
        """The sizes of Gated DeltaNet layers, of a model that has them."""
        assert self.recurrent is not None
        assert self.recurrent.delta is not None
        return self.recurrent.delta

    @property
    def conv(self) -> ConvSizes:
        """The sizes of short convolutions, of a model that has them."""
        assert self.recurrent is not None
        assert self.recurrent.conv is not None
        return self.recurrent.conv

    @property
    def states(self) -> tuple[States, ...]:
        """The kinds of memory that recurrent layers keep."""
        return self.recurrent.states if self.recurrent else ()

    def heads_of(self, layer: int) -> tuple[int, int]:
        """Return a layer's number of key heads, and the size of its heads."""
        sizes = self.by_layer
        return (sizes.kv_heads[layer], sizes.head_dims[layer]) if sizes else (self.kv_heads, self.head_dim)

    def has_experts(self, layer: int) -> bool:
        return self.experts is not None and layer >= self.experts.dense

    def ffn_of(self, layer: int) -> int:
        return self.by_layer.ffns[layer] if self.by_layer else self.ffn

    @property
    def per_layer(self) -> int:
        """Numbers of a token in the per-layer embedding, in each layer; 0 without one."""
        return self.by_layer.per_layer if self.by_layer else 0

    @property
    def own(self) -> int:
        """Number of the layers, from the first on, that have a cache of their own."""
        return self.layers - (self.by_layer.shared if self.by_layer else 0)

    def source(self, layer: int) -> int:
        """Return the layer whose cache a layer reads: itself, or the last of its kind that has its own."""
        if layer < self.own:
            return layer
        return max(other for other in range(self.own) if self._cache(other) == self._cache(layer))

    def place(self, layer: int) -> int:
        """Return the index in its cache of the layer whose cache a layer reads.

        Layers with a window have one cache, recurrent ones another.
        """
        source = self.source(layer)
        return sum(self._cache(other) == self._cache(source) for other in range(source))

    def keys_of(self, local: bool) -> Keys:
        """Return the kind of cache of attention with a window (``local``), or without."""
        layers = [layer for layer in range(self.own) if self._cache(layer) == (ATTENTION, local)]
        heads = self.heads_of(layers[0]) if layers else (self.kv_heads, self.head_dim)
        return Keys(RINGS if local else CACHE, len(layers), *heads, max(self.windows) if local else 0)

    def _cache(self, layer: int) -> tuple[str, bool]:
        return self.mixer(layer), self.windows[layer] > 0


def read_hyperparameters(architecture: Architecture, metadata: Mapping[str, Any]) -> Hyperparameters:
    """Read and check the metadata of a model.

    Raises BadFileError for a missing or impossible value, UnsupportedError for one that the graph cannot
    express.
    """
    keys = MetadataKeys(architecture.name, metadata)
    if architecture.finetuned_rope and not keys.flag("rope.scaling.finetuned", True):
        architecture = replace(architecture, no_rope_period=1)
    honoured = architecture.honours | ({"expert_count"} if architecture.experts else set())
    for key, harmless in _REFUSED.items():
        value = keys.get(key)
        if value is not None and value not in harmless and key not in honoured:
            raise UnsupportedError(
                f"the model sets {architecture.name}.{key} = {str(value)[:40]}, which has no op here"
            )
    blocks, hidden, heads = (
        keys.size("block_count", most=MOST_LAYERS),
        keys.size("embedding_length"),
        keys.size("attention.head_count"),
    )
    nextn = nextn_layers(keys, architecture, blocks)
    layers = blocks - nextn
    windows = _windows(keys, architecture, layers)
    by_layer = read_layer_sizes(keys, windows) if architecture.sizes_by_layer else None
    kv_heads = by_layer.kv_heads[-1] if by_layer else key_heads(keys, architecture, heads)
    head_dim = keys.size("attention.key_length", hidden // heads)
    for count in by_layer.kv_heads if by_layer else (kv_heads,):
        _check_heads(keys, heads, count, head_dim)
    yarn = read_yarn(keys, architecture)
    rotary_dim = _rotary_dim(keys, architecture, head_dim)
    factor = yarn.attention if yarn else _rotary_factor(keys, architecture)
    whole = rotary_dim == head_dim
    experts = read_experts(keys, architecture, layers)
    return Hyperparameters(
        architecture=architecture,
        layers=layers,
        hidden=hidden,
        ffn=max(by_layer.ffns) if by_layer else _ffn(keys, experts),
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        rotary_dim=rotary_dim,
        context=_context(keys, architecture),
        epsilon=keys.number("attention.layer_norm_rms_epsilon"),
        attention_scale=_attention_scale(keys, architecture, (layers, hidden, heads, head_dim))
        * (factor**2 if whole else 1.0),
        rotary_scale=1.0 if whole else factor,
        rope_base=_rope_base(keys, "rope.freq_base", 10000.0),
        rope_divisor=_rope_divisor(keys, architecture),
        local_rope_base=_local_rope_base(keys, architecture),
        windows=windows,
        attention_softcap=keys.number("attn_logit_softcapping", architecture.softcaps[0]),
        final_softcap=keys.number("final_logit_softcapping", architecture.softcaps[1]),
        recurrent=read_recurrent(keys, architecture, layers, hidden),
        nextn=nextn,
        yarn=yarn,
        by_layer=by_layer,
        experts=experts,
        embedding_scale=keys.number("embedding_scale", 0.0)
        or (math.sqrt(hidden) if architecture.scale_embedding else 1.0),
        residual_scale=keys.number("residual_scale", 0.0) or 1.0,
        logit_scale=keys.number("logit_scale", 0.0) or 1.0,
    )


def _ffn(keys: MetadataKeys, experts: ExpertSizes | None) -> int:
    """Return the width of the MLP; that of an expert where no layer has an MLP, whatever the file states."""
    return experts.width if experts and not experts.dense else keys.size("feed_forward_length")


def _check_heads(keys: MetadataKeys, heads: int, kv_heads: int, head_dim: int) -> None:
    if heads % kv_heads:
        raise BadFileError(f"the model's {heads} query heads can not share {kv_heads} key heads")
    if keys.size("attention.value_length", head_dim) != head_dim:
        raise UnsupportedError("the model has keys and values of different sizes, which are not supported")
    if head_dim % 16 or head_dim > _MOST_HEAD_DIM:
        raise UnsupportedError(
            f"the model has a head size of {head_dim}, which is not supported", hint="multiples of 16 are"
        )


def _rotary_dim(keys: MetadataKeys, architecture: Architecture, head_dim: int) -> int:
    rotary = keys.size("rope.dimension_count", head_dim)
    partial = architecture.partial_rotary and rotary < head_dim and rotary % 2 == 0
    if rotary != head_dim and not partial:
        raise UnsupportedError(
            f"the model has partial rotary positions ({rotary} of {head_dim}), which are not supported"
        )
    return rotary


def _rotary_factor(keys: MetadataKeys, architecture: Architecture) -> float:
    """Return LongRoPE's factor on sines and cosines."""
    return (keys.number("rope.scaling.attn_factor", 0.0) if architecture.long_rope else 0.0) or 1.0


def _context(keys: MetadataKeys, architecture: Architecture) -> int:
    """Return the context in tokens; the original one for LongRoPE and for queries with a temperature.

    Beyond it LongRoPE uses other factors, and keys already in the KV cache cannot be changed. Within it a
    temperature is 1.
    """
    context = keys.size("context_length")
    if architecture.long_rope or keys.number("attention.temperature_scale", 0.0):
        context = min(context, keys.size("rope.scaling.original_context_length", context))
    return context


def _attention_scale(
    keys: MetadataKeys, architecture: Architecture, sizes: tuple[int, int, int, int]
) -> float:
    """Return the factor on q.k, before LongRoPE's own: q and k have that once each."""
    scale_of = architecture.attention_scale or (lambda _l, _h, _n, dim: 1.0 / math.sqrt(dim))
    return keys.number("attention.scale", 0.0) or scale_of(*sizes)


def _local_rope_base(keys: MetadataKeys, architecture: Architecture) -> float | None:
    base = architecture.local_rope_base
    return None if base is None else _rope_base(keys, "rope.freq_base_swa", base)


def _rope_base(keys: MetadataKeys, key: str, default: float) -> float:
    base = keys.number(key, default)
    if base < 1:
        raise BadFileError(f"{keys.architecture}.{key} in the model's metadata is {base}, below 1")
    return base


def _rope_divisor(keys: MetadataKeys, architecture: Architecture) -> float:
    kind = keys.get("rope.scaling.type")
    if (kind == "longrope" and architecture.long_rope) or (kind == "yarn" and architecture.yarn):
        return 1.0
    factor = keys.number("rope.scaling.factor", keys.number("rope.scale_linear", 1.0)) or 1.0
    if kind in (None, "none"):
        return 1.0 if kind == "none" else factor
    if kind == "linear":
        return factor
    raise UnsupportedError(f"rope scaling {str(kind)[:40]!r} is not supported", hint="none and linear are")


def _windows(keys: MetadataKeys, architecture: Architecture, layers: int) -> tuple[int, ...]:
    if architecture.windows_everywhere:
        none = keys.get("attention.sliding_window") in (None, 0)
        window = 0 if none else keys.size("attention.sliding_window")
        return (window if window < _context(keys, architecture) else 0,) * layers
    if not architecture.global_period:
        if keys.get("attention.sliding_window"):
            raise UnsupportedError(f"a sliding window in {architecture.name} models is not supported")
        return (0,) * layers
    window = keys.size("attention.sliding_window")
    pattern = keys.get("attention.sliding_window_pattern")
    if isinstance(pattern, list):
        if len(pattern) != layers or not all(isinstance(local, bool) for local in pattern):
            raise BadFileError("attention.sliding_window_pattern of the model does not fit the layers")
        return tuple(window if local else 0 for local in pattern)
    period = keys.size("attention.sliding_window_pattern", architecture.global_period)
    return tuple(window if (layer + 1) % period else 0 for layer in range(layers))
