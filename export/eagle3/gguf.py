"""Reads an EAGLE-3 head from a GGUF file of llama.cpp's architecture ``eagle3``.

``draft_head.gguf`` writes such files.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from gguf.constants import GGMLQuantizationType
from numpy.typing import NDArray

from edgedec.core.errors import BadFileError, UnsupportedError
from edgedec.core.model_spec import ModelSpec
from edgedec.export.draft_head.gguf import EAGLE3, EMBEDDING, NAMES, TURNED, halves
from edgedec.export.draft_head.weights import Floats, HeadWeights
from edgedec.export.drafters.sources import GgufRows, float_rows
from edgedec.export.eagle3.config import checked_taps
from edgedec.export.eagle3.reading import ForeignHead, ordered_ids
from edgedec.export.gguf_source import GgufSource
from edgedec.export.gguf_writer import ARCHITECTURE
from edgedec.export.metadata_keys import MetadataKeys

LAYOUT = "llama.cpp"
_SCALINGS = ("none", "linear")
_OTHERS = ("d2t", EMBEDDING)


def read_head_gguf(gguf: GgufSource, spec: ModelSpec) -> ForeignHead:
    """Read the head in an open file for a target of the sizes ``spec``; its embedding stays in the file.

    Raises BadFileError for a damaged file, UnsupportedError for another architecture and for a head that the
    graph cannot express.
    """
    name = gguf.path.name
    if (architecture := gguf.metadata.get(ARCHITECTURE)) != EAGLE3:
        raise UnsupportedError(
            f"{name} is of the architecture {str(architecture)[:40]!r}, not an EAGLE-3 head",
            hint="an assistant of Gemma 4 and an MTP layer (blk.N.nextn) can be imported, too",
        )
    numbers = _numbers(gguf, spec)
    arrays = numbers | _tensors(gguf, numbers["head_dim"])
    if (gguf.metadata.get(f"{EAGLE3}.norm_before_fc") is True) != ("norm_taps" in arrays):
        raise BadFileError(f"{name} has another norm before fc than it states")
    keep, order = _kept(gguf, arrays.get("head"), spec)
    if order is not None and "head" in arrays:
        arrays["head"] = arrays["head"][order]
    table = gguf.tensors.get(EMBEDDING)
    if table is not None and len(table.shape) != 2:
        raise BadFileError(f"tensor {EMBEDDING} has shape {list(table.shape)}")
    embedding = None if table is None else GgufRows(gguf, table)
    weights = HeadWeights.of({**arrays, "keep": keep, "embedding": embedding})
    return ForeignHead(weights, LAYOUT, stated=True)


def _numbers(gguf: GgufSource, spec: ModelSpec) -> dict[str, Any]:
    keys = MetadataKeys(EAGLE3, gguf.metadata)
    hidden, heads = keys.size("embedding_length"), keys.size("attention.head_count")
    head_dim = keys.size("attention.key_length", max(hidden // heads, 1))
    if keys.size("block_count", 1) != 1:
        raise UnsupportedError("the head has several layers, and only heads of one layer are supported")
    if keys.size("rope.dimension_count", head_dim) != head_dim:
        raise UnsupportedError("a head that rotates a part of its queries is not supported")
    kind = keys.get("rope.scaling.type") or "none"
    if kind not in _SCALINGS:
        raise UnsupportedError(f"rope scaling of the kind {ascii(kind)[:40]} is not supported in a head")
    width = keys.size("target_hidden_size", hidden)
    found: dict[str, Any] = {
        "hidden": hidden,
        "heads": heads,
        "kv_heads": keys.size("attention.head_count_kv", heads),
        "head_dim": head_dim,
        "ffn": keys.size("feed_forward_length"),
        "tap_size": 0 if width == hidden else width,
        "rope_base": keys.number("rope.freq_base", 10000.0),
        "epsilon": keys.number("attention.layer_norm_rms_epsilon", 1e-5),
        "norm_before_residual": keys.flag("norm_before_residual", False),
        "taps": checked_taps(keys.get("target_layers"), 1, spec.n_layers),
    }
    if kind == "linear":
        factor = keys.number("rope.scaling.factor", 1.0)
        found["rope_factors"] = np.full(head_dim // 2, factor, np.float32)
    return found


def _tensors(gguf: GgufSource, head_dim: int) -> dict[str, Any]:
    fields = {theirs: mine for mine, theirs in NAMES.items()}
    arrays: dict[str, Any] = {}
    for name, tensor in gguf.tensors.items():
        if name in _OTHERS:
            continue
        if name not in fields:
            raise UnsupportedError(f"the head has a tensor {name[:60]!r}, which is not supported")
        if not 1 <= len(tensor.shape) <= 2:
            raise BadFileError(f"tensor {name} has shape {list(tensor.shape)}")
        field = fields[name]
        values = (
            gguf.vector(tensor) if len(tensor.shape) == 1 else float_rows(gguf, tensor, 0, tensor.shape[0])
        )
        if field in TURNED and (values.ndim != 2 or head_dim % 2 or len(values) % head_dim):
            raise BadFileError(f"queries or keys of the head have shape {values.shape}")
        arrays[field] = halves(values, head_dim) if field in TURNED else values
    return arrays


def _kept(
    gguf: GgufSource, head: Floats | None, spec: ModelSpec
) -> tuple[NDArray[np.int64], NDArray[np.int64] | None]:
    """Return the ids that the head predicts, ascending, and the order of its rows in them."""
    tensor = gguf.tensors.get("d2t")
    if tensor is None:
        count = spec.vocab_size if head is None else len(head)
        if count > spec.vocab_size:
            raise UnsupportedError(f"the head predicts {count} tokens, and the model has {spec.vocab_size}")
        return np.arange(count, dtype=np.int64), None
    if tensor.type != GGMLQuantizationType.I64 or len(tensor.shape) != 1:
        raise BadFileError("d2t of the head is no list of whole numbers")
    ids = gguf.rows(tensor, 0, tensor.shape[0]).view("<i8").ravel().astype(np.int64)
    if head is not None and ids.size != len(head):
        raise BadFileError(f"d2t of the head names {ids.size} tokens, and the head has {len(head)} rows")
    return ordered_ids(ids, None, spec)
