"""Reads a directory with an EAGLE-3 head as the weights of a drafting head."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgedec.core.errors import BadFileError, UnsupportedError
from edgedec.core.model_spec import ModelSpec
from edgedec.core.quick_dataclass import dataclass
from edgedec.export.draft_head.weights import FLAGS, TAPS, Floats, HeadWeights
from edgedec.export.eagle3.config import Eagle3Config, is_eagle3, read_config
from edgedec.export.eagle3.names import field_of
from edgedec.export.eagle3.pickled import PICKLED, read_pickled
from edgedec.export.huggingface.files import read_object
from edgedec.export.huggingface.shards import INDEX, SINGLE, StoredTensor, read_shards, weight_files

CONFIG = "config.json"
_OF_CONFIG = (
    *("heads", "kv_heads", "head_dim", "ffn", "rope_base", "rope_factors", "epsilon", "taps"),
    *FLAGS[1:],
)
"""Fields of ``HeadWeights`` that config.json states."""


@dataclass(frozen=True, slots=True)
class ForeignHead:
    """A head that another trainer made; ``layout`` says whose form it has."""

    weights: HeadWeights
    layout: str
    stated: bool
    """Whether its files name the layers that it reads."""
    trained_for: str = ""
    """The target, where its files name it."""


def is_head_directory(path: Path) -> bool:
    """Return whether a directory holds an EAGLE-3 head. Raises BadFileError for a broken config.json."""
    return path.is_dir() and is_eagle3(read_object(path / CONFIG))


def read_head_directory(path: Path, spec: ModelSpec) -> ForeignHead:
    """Read the head in ``path`` for a target of the sizes ``spec``.

    Its embedding stays in the file. Raises NotFoundError, BadFileError for files that are damaged or do not
    fit each other, UnsupportedError for a head that the graph cannot express.
    """
    config = read_config(read_object(path / CONFIG, required=True), spec.n_layers)
    stored = _by_field(_tensors(path))
    weights = head_of(config, stored, spec)
    return ForeignHead(weights, config.layout, config.stated, config.trained_for)


def head_of(config: Eagle3Config, stored: Mapping[str, StoredTensor], spec: ModelSpec) -> HeadWeights:
    """Return the weights of a head from its tensors by field. Raises as ``read_head_directory``."""
    arrays: dict[str, Any] = {
        name: _floats(one) for name, one in stored.items() if name not in ("embedding", "d2t", "t2d")
    }
    if "norm_taps.0" in arrays:
        parts = [arrays.get(f"norm_taps.{at}") for at in range(TAPS)]
        if "norm_taps" in arrays or any(part is None or part.ndim != 1 for part in parts):
            raise BadFileError("the norms before fc of the head are not three, or two kinds of them")
        arrays["norm_taps"] = np.concatenate([arrays.pop(f"norm_taps.{at}") for at in range(TAPS)])
        arrays["norm_each"] = True
    if config.norms_taps and "norm_taps" not in arrays:
        raise BadFileError("the head lacks the norms before fc that its config.json states")
    if "fc" not in arrays or "norm_embed" not in arrays:
        raise BadFileError(f"the head lacks {'fc' if 'fc' not in arrays else 'its layer'}")
    hidden = arrays["norm_embed"].size
    if arrays["fc"].ndim != 2 or arrays["fc"].shape[1] % TAPS:
        raise BadFileError(f"fc of the head has shape {arrays['fc'].shape}")
    width = arrays["fc"].shape[1] // TAPS
    keep, order = _kept(stored, arrays.get("head"), config.vocab, spec)
    if order is not None and "head" in arrays:
        arrays["head"] = arrays["head"][order]
    table = stored.get("embedding")
    if table is not None and len(table.shape) != 2:
        raise BadFileError(f"the embedding of the head has shape {table.shape}")
    arrays |= {name: getattr(config, name) for name in _OF_CONFIG}
    arrays |= {"hidden": hidden, "tap_size": 0 if width == hidden else width}
    return HeadWeights.of({**arrays, "keep": keep, "embedding": table})


def _tensors(path: Path) -> dict[str, StoredTensor]:
    safe = (path / SINGLE).is_file() or (path / INDEX).is_file()
    if not safe and (path / PICKLED).is_file():
        return read_pickled(path / PICKLED)
    return read_shards(weight_files(path))


def _by_field(stored: Mapping[str, StoredTensor]) -> dict[str, StoredTensor]:
    found: dict[str, StoredTensor] = {}
    for name, one in stored.items():
        field = field_of(name)
        if field is None:
            raise UnsupportedError(f"the head has a tensor {ascii(name)[:60]}, which is not supported")
        if field in found:
            raise BadFileError(f"tensor {ascii(name)[:60]} stands beside another one with its meaning")
        if field:
            found[field] = one
    return found


def _floats(stored: StoredTensor) -> Floats:
    if not 1 <= len(stored.shape) <= 2:
        raise BadFileError(f"tensor {stored.name[:80]} has shape {stored.shape}")
    return stored.read(0, stored.shape[0])


def _kept(
    stored: Mapping[str, StoredTensor], head: Floats | None, vocab: int, spec: ModelSpec
) -> tuple[NDArray[np.int64], NDArray[np.int64] | None]:
    """Return the ids of the target that the head predicts, ascending, and the order of its rows in them."""
    count = vocab if head is None else len(head)
    if (table := stored.get("d2t")) is None:
        if count > spec.vocab_size:
            raise UnsupportedError(f"the head predicts {count} tokens, and the model has {spec.vocab_size}")
        if count != vocab:
            raise BadFileError(f"the head predicts {count} of {vocab} tokens, and has no d2t to say which")
        return np.arange(count, dtype=np.int64), None
    offsets = table.integers()
    if offsets.size != count and head is not None:
        raise BadFileError(f"d2t of the head names {offsets.size} tokens, and the head has {count} rows")
    return ordered_ids(np.arange(offsets.size, dtype=np.int64) + offsets, stored.get("t2d"), spec)


def ordered_ids(
    ids: NDArray[np.int64], mask: StoredTensor | None, spec: ModelSpec
) -> tuple[NDArray[np.int64], NDArray[np.int64] | None]:
    """Return ids of the target ascending, and their order; None: as they are. Raises BadFileError."""
    if not ids.size or ids.min() < 0 or ids.max() >= spec.vocab_size:
        raise BadFileError(f"d2t of the head names a token outside the {spec.vocab_size} of {spec.name}")
    order = np.argsort(ids, kind="stable").astype(np.int64)
    keep = ids[order]
    if (np.diff(keep) == 0).any():
        raise BadFileError("d2t of the head names a token twice")
    if mask is not None:
        known = np.flatnonzero(mask.integers())
        if not np.array_equal(known, keep):
            raise BadFileError("t2d and d2t of the head name different tokens")
    return keep, None if np.array_equal(order, np.arange(order.size)) else order
