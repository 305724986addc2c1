"""Writes the MTP layer of a model as a GGUF file of its own, as llama.cpp's converter does with ``--mtp``.

Such a file has the metadata of the model, with one layer more, and of its tensors the embedding, the head and
the last norm. The layers of the model itself are missing. llama.cpp drafts with it beside the model, and
EdgeDec reads it (``files``).
"""

from __future__ import annotations

import numpy as np

from edgedec.bundle.manifest import Manifest
from edgedec.bundle.mtp_facts import GRAPH
from edgedec.core.errors import UnsupportedError
from edgedec.export.architectures import ARCHITECTURES
from edgedec.export.blocks.gated_attention import gate_rows, key_rows, query_rows
from edgedec.export.blocks.rotary import head_order
from edgedec.export.drafters.gguf import other_model
from edgedec.export.drafters.interface import GgufForm, StoredDrafter
from edgedec.export.gguf_source import GgufSource
from edgedec.export.gguf_writer import GgufTensor, Value, copied, metadata_of
from edgedec.export.hyperparameters import Hyperparameters, read_hyperparameters
from edgedec.export.stored import GraphWeights

FROM_TARGET = ("token_embd.weight", "output.weight", "output_norm.weight")
_BY_LAYER = "attention.recurrent_layers"
"""A list that has an entry for each layer; readers compute it from the interval of attention without it."""
_ORDERS = ("attn_q", "attn_q_gate", "attn_k", "attn_q_norm", "attn_k_norm")
"""Tensors whose rows or elements the kernels have in another order than a GGUF file."""


def mtp_gguf(drafter: StoredDrafter, source: GgufSource, name: str) -> GgufForm:
    """Return the layer as ``DrafterFiles.gguf`` does; ``source`` may lack it."""
    hyper = _sizes(source, drafter.target)
    arch, block = hyper.architecture.name, f"blk.{hyper.layers}."
    tensors = [copied(source, source.tensors[tensor]) for tensor in FROM_TARGET if tensor in source.tensors]
    tensors += _layer(GraphWeights(drafter.folder, GRAPH), hyper, block)
    metadata = metadata_of(source.path) | {
        "general.name": Value.of(name),
        f"{arch}.block_count": Value.of(hyper.layers + 1),
        f"{arch}.nextn_predict_layers": Value.of(1),
    }
    metadata.pop(f"{arch}.{_BY_LAYER}", None)
    return metadata, tensors


def _sizes(gguf: GgufSource, manifest: Manifest) -> Hyperparameters:
    """Return the sizes of the model that the GGUF file holds. Raises BadFileError for another one."""
    spec, known = manifest.spec, gguf.metadata.get("general.architecture")
    found: tuple[object, ...] = ()
    if known == spec.architecture and known in ARCHITECTURES:
        hyper = read_hyperparameters(ARCHITECTURES[known], gguf.metadata)
        found = hyper.layers, hyper.hidden, len(gguf.metadata.get("tokenizer.ggml.tokens") or ())
    if found != (spec.n_layers, spec.hidden_size, spec.vocab_size):
        raise other_model(gguf, "layer")
    if not hyper.architecture.gated_attention:
        raise UnsupportedError(f"the MTP layer of a {spec.architecture} model has no GGUF form")
    return hyper


def _layer(stored: GraphWeights, hyper: Hyperparameters, block: str) -> list[GgufTensor]:
    """Return the tensors of the layer in the order of rows and elements that a GGUF file has."""
    mine = "blk.0."
    found = {name.removeprefix(mine): name for name in stored.names() if name.startswith(mine)}
    moved = {f"{name}.weight": stored.tensor(found.pop(f"{name}.weight")) for name in _ORDERS}
    tensors = [one for name, ours in found.items() for one in _tensors(stored, ours, block + name)]
    query, gate = moved["attn_q.weight"], moved["attn_q_gate.weight"]
    both = np.empty((2 * len(query.data), query.data.shape[1]), np.uint8)
    both[query_rows(hyper)], both[gate_rows(hyper)] = query.data, gate.data
    tensors.append(GgufTensor(f"{block}attn_q.weight", both, query.format))
    key, keys = moved["attn_k.weight"], np.empty_like(moved["attn_k.weight"].data)
    keys[key_rows(hyper)] = key.data
    tensors.append(GgufTensor(f"{block}attn_k.weight", keys, key.format))
    for name in ("attn_q_norm.weight", "attn_k_norm.weight"):
        values = np.empty(hyper.head_dim, np.float32)
        values[head_order(hyper)] = moved[name].data
        tensors.append(GgufTensor(block + name, values))
    return tensors


def _tensors(stored: GraphWeights, ours: str, name: str) -> list[GgufTensor]:
    """Return the tensor ``name``: of experts those of gate, up and down, of a matrix of one row a vector."""
    if (experts := stored.experts.get(ours)) is not None:
        only = len(experts.packed) == 1  # a shared expert has matrices
        parts = zip(("gate", "up", "down"), experts.blocks(), experts.formats, strict=True)
        return [
            GgufTensor(name.replace(".ffn_", f".ffn_{part}_"), data[0] if only else data, format)
            for part, data, format in parts
        ]
    tensor = stored.tensor(ours)
    row = ours in stored.matrices and stored.matrices[ours].rows == 1
    return [GgufTensor(name, tensor.data[0] if row else tensor.data, tensor.format)]
