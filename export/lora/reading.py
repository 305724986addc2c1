"""Reads an adapter for one bundle: its matrices by the names that the bundle has for them.

GGUF files of some architectures permute the rows of q and k, and so do their adapters. Directories do not.
The rows are brought into the bundle's order, whichever way it was made.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from edgedec.backends.onnx.graph import read_graph
from edgedec.bundle.manifest import Manifest
from edgedec.core.errors import NotFoundError, UnsupportedError
from edgedec.core.low_rank import F32, LoraAdapter, LowRank, hash_of
from edgedec.core.model_spec import ModelSpec
from edgedec.export.architectures import ARCHITECTURES, Architecture
from edgedec.export.huggingface.conversion import role
from edgedec.export.huggingface.names import gguf_name
from edgedec.export.lora.gguf import read_gguf
from edgedec.export.lora.pairs import split_scale
from edgedec.export.lora.peft import folder_of, read_peft

_REORDERED = ("ssm_", "attn_gate.weight", "attn_qkv.weight")
"""Begins of roles whose rows or columns GGUF files have in another order, in models with recurrent layers."""


def read_adapter(named: str, bundle: Path) -> LoraAdapter:
    """Read ``FILE`` or ``FILE:SCALE`` for the model in ``bundle``: a GGUF file, or a directory of PEFT.

    Raises UsageError for a scale that is none, NotFoundError, BadFileError, and UnsupportedError for an
    adapter of another model or with more than low-rank changes.
    """
    path, scale = split_scale(named)
    manifest = Manifest.load(bundle)
    architecture = ARCHITECTURES.get(manifest.spec.architecture)
    if architecture is None or manifest.kind != "edgedec":
        raise UnsupportedError(
            f"{manifest.name} is run by another runtime, which takes no adapters here",
            hint="export the model for EdgeDec's own kernels",
        )
    if folder := folder_of(path):
        changes = _by_gguf_name(folder, read_peft(folder, scale), architecture, manifest.spec)
        permuted = False
    elif path.is_file():
        changes, permuted = read_gguf(path, architecture.name, scale), architecture.interleaved
    else:
        raise NotFoundError(f"there is no adapter {path}", hint="name a GGUF file or a directory of PEFT")
    if (wanted := _permuted(bundle)) != permuted:
        changes = dict(_reordered(changes, manifest.spec, permuted=wanted))
    kept = changes if scale else {}
    return LoraAdapter(path.name, hash_of(kept), kept)


def _by_gguf_name(
    folder: Path, changes: Mapping[str, LowRank], architecture: Architecture, spec: ModelSpec
) -> dict[str, LowRank]:
    """Return the changes of a directory by the names of a GGUF file."""
    found = {gguf_name(architecture, f"{module}.weight"): change for module, change in changes.items()}
    for name in found:
        if spec.states and role(name).startswith(_REORDERED):
            raise UnsupportedError(
                f"the adapter in {folder} changes {name}, whose rows lie in another order in a bundle",
                hint="convert the adapter to GGUF, or leave out these layers",
            )
    return found


def _permuted(bundle: Path) -> bool:
    """Return whether the bundle has rows of q and k as GGUF files of its architecture do."""
    return any(node.integer("interleaved") for node in read_graph(bundle).nodes)


def _reordered(
    changes: Mapping[str, LowRank], spec: ModelSpec, *, permuted: bool
) -> Iterator[tuple[str, LowRank]]:
    """Yield changes whose rows of a head lie in turns of both halves, or where not ``permuted`` in halves."""
    heads = {"attn_q.weight": spec.n_heads, "attn_k.weight": spec.n_kv_heads}
    for name, change in changes.items():
        count = heads.get(role(name), 0)
        if count and change.shape[0] == count * spec.head_dim:
            change = LowRank.of(change.down, _turned(change.up, count, spec.head_dim, permuted=permuted))
        yield name, change


def _turned(up: F32, heads: int, head_dim: int, *, permuted: bool) -> F32:
    shape = (heads, 2, head_dim // 2) if permuted else (heads, head_dim // 2, 2)
    return np.ascontiguousarray(up.reshape(*shape, -1).swapaxes(1, 2).reshape(up.shape))
