"""Turns a drafting head into a GGUF file of llama.cpp's architecture ``eagle3``.

Both compute the same (``weights``), with these differences in how they write it down:

- llama.cpp turns neighbouring elements of queries and keys, so their rows are reordered.
- It counts the layer that reads hidden states, not the one that wrote them: ``target_layers`` is one more.
- ``d2t`` are the ids that the head predicts. A file without an embedding table has the target's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gguf.constants import GGUFValueType
from numpy.typing import NDArray
from onnx import numpy_helper

from edgedec.bundle.head_facts import GRAPH, HeadFacts
from edgedec.core.errors import BadFileError, UnsupportedError
from edgedec.disk.listed_files import Scalar
from edgedec.export.blocks.rotary import ROPE_FACTORS, inverse_frequencies
from edgedec.export.draft_head.weights import Floats
from edgedec.export.drafters.gguf import other_model, tokens_of
from edgedec.export.drafters.interface import GgufForm, StoredDrafter
from edgedec.export.gguf_source import GgufSource
from edgedec.export.gguf_writer import ARCHITECTURE, GgufTensor, Value, metadata_for
from edgedec.export.model import attributes
from edgedec.export.stored import GraphWeights

EAGLE3 = "eagle3"
NAMES = {
    "fc": "fc.weight",
    "norm_embed": "blk.0.attn_norm.weight",
    "norm_state": "blk.0.attn_norm_2.weight",
    "attn_q": "blk.0.attn_q.weight",
    "attn_k": "blk.0.attn_k.weight",
    "attn_v": "blk.0.attn_v.weight",
    "attn_output": "blk.0.attn_output.weight",
    "ffn_norm": "blk.0.ffn_norm.weight",
    "ffn_gate": "blk.0.ffn_gate.weight",
    "ffn_up": "blk.0.ffn_up.weight",
    "ffn_down": "blk.0.ffn_down.weight",
    "output_norm": "output_norm.weight",
    "head": "output.weight",
    "norm_taps": "enc.output_norm.weight",
    "rope_factors": ROPE_FACTORS,
}
EMBEDDING = "token_embd.weight"
TURNED = ("attn_q", "attn_k")


def head_gguf(drafter: StoredDrafter, source: GgufSource, name: str) -> GgufForm:
    """Return the head as ``DrafterFiles.gguf`` does."""
    stored, facts = GraphWeights(drafter.folder, GRAPH), HeadFacts.of(drafter.manifest.facts)
    _check(stored, drafter.manifest.facts)
    prefix = source.metadata.get(ARCHITECTURE)
    width, layers, context = (
        source.metadata.get(f"{prefix}.{key}")
        for key in ("embedding_length", "block_count", "context_length")
    )
    keep = _kept(stored)
    vocabulary = source.metadata.get("tokenizer.ggml.tokens", [])
    if width != (facts.tap_size or facts.hidden) or len(vocabulary) <= keep[-1]:
        raise other_model(source, "head")
    if not isinstance(layers, int) or not isinstance(context, int):
        raise BadFileError(f"{source.path} lacks its sizes", hint="download it again")
    base, factors = _rotary(stored.vector("inv_freq").astype(np.float64), drafter.manifest.facts)
    tensors = [GgufTensor("d2t", keep)]
    for mine, theirs in {"embedding": EMBEDDING, **NAMES}.items():
        if stored.has(mine):
            one = stored.tensor(mine)
            data = neighbours(one.data, facts.head_dim) if mine in TURNED else one.data
            tensors.append(GgufTensor(theirs, data, one.format))
    if factors is not None:
        tensors.append(GgufTensor(ROPE_FACTORS, factors))
    read = [tap + 1 for tap in facts.read_from(layers)]
    found = {
        "block_count": 1,
        "context_length": context,
        "embedding_length": facts.hidden,
        "feed_forward_length": facts.ffn,
        "attention.head_count": facts.heads,
        "attention.head_count_kv": facts.kv_heads,
        "attention.key_length": facts.head_dim,
        "attention.value_length": facts.head_dim,
        "attention.layer_norm_rms_epsilon": _epsilon(stored),
        "rope.dimension_count": facts.head_dim,
        "rope.freq_base": base,
        "target_hidden_size": facts.tap_size or facts.hidden,
        "norm_before_residual": drafter.manifest.facts.get("norm_before_residual") is True,
        "target_layers": Value(read, GGUFValueType.ARRAY, GGUFValueType.INT32),
        **({"norm_before_fc": True} if stored.has("norm_taps") else {}),
    }
    return {**metadata_for(EAGLE3, name, found), **tokens_of(source)}, tensors


def _check(stored: GraphWeights, stated: Mapping[str, Scalar]) -> None:
    """Raise UnsupportedError for what llama.cpp's graph of a head does not have."""
    for name, there in (
        ("a norm of each layer that it reads", stated.get("norm_each") is True),
        ("norms of queries and keys", stored.has("q_norm")),
        ("a normed state for its next step", stated.get("norm_output") is True),
    ):
        if there:
            raise UnsupportedError(f"the head has {name}, and llama.cpp's architecture {EAGLE3} does not")


def _kept(stored: GraphWeights) -> NDArray[np.int64]:
    """Return the ids that the head predicts."""
    keep = next(node for node in stored.graph.node if node.output[0] == "keep")
    return numpy_helper.to_array(keep.attribute[0].t).astype(np.int64)


def _epsilon(stored: GraphWeights) -> float:
    norm = next(node for node in stored.graph.node if node.op_type == "RMSNorm")
    return float(str(attributes(norm)["epsilon"]))


def _rotary(inverse: NDArray[np.float64], stated: Mapping[str, Scalar]) -> tuple[float, Floats | None]:
    """Return the base of frequencies, and their divisors where they are not all 1."""
    base = stated.get("rope_base")
    if not isinstance(base, int | float):
        steps = inverse.size / (inverse.size - 1)  # the last frequency tells the base best
        return float(f"{inverse[-1] ** -steps:.6g}"), None
    factors = (inverse_frequencies(float(base), 2 * inverse.size) / inverse).astype(np.float32)
    return float(base), None if (factors == 1).all() else factors


def halves(matrix: Floats, head_dim: int) -> Floats:
    """Reorder rows whose rotary pairs are (2i, 2i + 1) within a head into pairs (i, i + head_dim / 2)."""
    heads = matrix.reshape(-1, head_dim // 2, 2, matrix.shape[1])
    return np.ascontiguousarray(heads.transpose(0, 2, 1, 3)).reshape(matrix.shape)


def neighbours(matrix: NDArray[Any], head_dim: int) -> NDArray[Any]:
    """Reorder rows whose rotary pairs are (i, i + head_dim / 2) within a head into pairs (2i, 2i + 1)."""
    heads = matrix.reshape(-1, 2, head_dim // 2, matrix.shape[1])
    return np.ascontiguousarray(heads.transpose(0, 2, 1, 3)).reshape(matrix.shape)
