"""Sizes that differ between the layers of one model: heads, keys that layers share, MLPs."""

from __future__ import annotations

from edgedec.core.errors import BadFileError, UnsupportedError
from edgedec.core.quick_dataclass import dataclass
from edgedec.export.metadata_keys import MetadataKeys

_MOST_ROW = 1 << 20
"""Most numbers of a token in a table of per-layer embeddings."""


@dataclass(frozen=True, slots=True)
class LayerSizes:
    """Sizes by layer. Those of layers with a window may differ from those of the others."""

    kv_heads: tuple[int, ...]
    head_dims: tuple[int, ...]
    ffns: tuple[int, ...]
    shared: int
    """The last layers that have no keys: each reads those of the last layer before them of its kind."""
    per_layer: int
    """Numbers that the per-layer embedding has of a token in each layer; 0: there is none."""


def read_layer_sizes(keys: MetadataKeys, windows: tuple[int, ...]) -> LayerSizes:
    """Read the sizes of layers, of which ``windows`` has the attention windows.

    Raises BadFileError or UnsupportedError.
    """
    layers = len(windows)
    whole = _head_dim(keys, "")
    local = _head_dim(keys, "_swa") if any(windows) else whole
    sizes = LayerSizes(
        kv_heads=keys.sizes("attention.head_count_kv", layers),
        head_dims=tuple(local if window else whole for window in windows),
        ffns=keys.sizes("feed_forward_length", layers),
        shared=keys.count("attention.shared_kv_layers"),
        per_layer=keys.count("embedding_length_per_layer_input"),
    )
    if layers * sizes.per_layer > _MOST_ROW:
        raise BadFileError(f"the model's per-layer embedding has {layers} times {sizes.per_layer} numbers")
    for kind in (True, False):
        alike = [layer for layer, window in enumerate(windows) if (window > 0) == kind]
        if len({sizes.kv_heads[layer] for layer in alike}) > 1:
            raise UnsupportedError(
                "the model's key heads differ between layers of one kind, which is not supported"
            )
        if alike and (not kind or alike[-1] >= layers - sizes.shared) and alike[0] >= layers - sizes.shared:
            raise BadFileError(f"the model's last {sizes.shared} layers find no keys to share")
    if all(windows):
        raise UnsupportedError("the model has no layer without a window, which is not supported")
    return sizes


def _head_dim(keys: MetadataKeys, kind: str) -> int:
    size = keys.size(f"attention.key_length{kind}")
    rotated = keys.size(f"rope.dimension_count{kind}", size)
    if keys.size(f"attention.value_length{kind}", size) != size:
        raise UnsupportedError("the model has keys and values of different sizes, which are not supported")
    if size % 16:
        raise UnsupportedError(
            f"the model has a head size of {size}, which is not supported", hint="multiples of 16 are"
        )
    if rotated != size:
        raise UnsupportedError(
            f"the model has partial rotary positions ({rotated} of {size}), which are not supported"
        )
    return size
