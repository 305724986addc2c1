"""Turns a drafting head into a GGUF file of llama.cpp's architecture ``eagle3``.

Both compute the same (``weights``), with these differences in how they write it down:

- llama.cpp turns neighbouring elements of queries and keys, so their rows are reordered.
- It counts the layer that reads hidden states, not the one that wrote them: ``target_layers`` is one more.
- ``d2t`` are the ids that the head predicts. A file without an embedding table has the target's.
"""

from __future__ import annotations

import numpy as np
from gguf.constants import GGUFValueType

from edgedec.bundle.exits import taps_of
from edgedec.core.errors import BadFileError, UnsupportedError
from edgedec.export.blocks.rotary import ROPE_FACTORS
from edgedec.export.calibration.search import quantise
from edgedec.export.draft_head.installed import InstalledHead
from edgedec.export.draft_head.weights import Floats, HeadWeights
from edgedec.export.drafters.gguf import other_model, tokens_of
from edgedec.export.drafters.interface import GgufForm
from edgedec.export.gguf_source import GgufSource
from edgedec.export.gguf_writer import ARCHITECTURE, GgufTensor, Value

EAGLE3 = "eagle3"
_PIECE = 4096
"""Rows of a table that are quantised at a time."""
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


def head_gguf(head: InstalledHead, source: GgufSource, name: str) -> GgufForm:
    """Return the head as ``DrafterFiles.gguf`` does."""
    weights = head.weights
    _check(weights)
    prefix = source.metadata.get(ARCHITECTURE)
    width, layers, context = (
        source.metadata.get(f"{prefix}.{key}")
        for key in ("embedding_length", "block_count", "context_length")
    )
    vocabulary = source.metadata.get("tokenizer.ggml.tokens", [])
    if width != (weights.tap_size or weights.hidden) or len(vocabulary) <= weights.keep[-1]:
        raise other_model(source, "head")
    if not isinstance(layers, int) or not isinstance(context, int):
        raise BadFileError(f"{source.path} lacks its sizes", hint="download it again")
    tensors = [GgufTensor("d2t", weights.keep), *_embedding(head)]
    for mine, theirs in NAMES.items():
        values: Floats | None = getattr(weights, mine)
        if values is None:
            continue
        if mine in TURNED:
            values = neighbours(values, weights.head_dim)
        if values.ndim == 1:
            tensors.append(GgufTensor(theirs, values))
        else:
            format = head.formats[mine]
            tensors.append(GgufTensor(theirs, quantise(values, format), format))
    return {**_facts(weights, layers, context, name), **tokens_of(source)}, tensors


def _check(weights: HeadWeights) -> None:
    """Raise UnsupportedError for what llama.cpp's graph of a head does not have."""
    for name, there in (
        ("a norm of each layer that it reads", weights.norm_each),
        ("norms of queries and keys", weights.q_norm is not None),
        ("a normed state for its next step", weights.norm_output),
    ):
        if there:
            raise UnsupportedError(f"the head has {name}, and llama.cpp's architecture {EAGLE3} does not")


def _embedding(head: InstalledHead) -> list[GgufTensor]:
    table = head.weights.embedding
    if table is None:
        return []
    format, rows = head.formats["embedding"], table.shape[0]
    pieces = [quantise(table.read(at, min(at + _PIECE, rows)), format) for at in range(0, rows, _PIECE)]
    return [GgufTensor(EMBEDDING, np.concatenate(pieces), format)]


def neighbours(matrix: Floats, head_dim: int) -> Floats:
    """Reorder rows whose rotary pairs are (i, i + head_dim / 2) within a head into pairs (2i, 2i + 1)."""
    heads = matrix.reshape(-1, 2, head_dim // 2, matrix.shape[1])
    return np.ascontiguousarray(heads.transpose(0, 2, 1, 3)).reshape(matrix.shape)


def _facts(weights: HeadWeights, layers: int, context: int, name: str) -> dict[str, Value]:
    number, real = GGUFValueType.UINT32, GGUFValueType.FLOAT32
    found = {
        "block_count": Value(1, number),
        "context_length": Value(context, number),
        "embedding_length": Value(weights.hidden, number),
        "feed_forward_length": Value(weights.ffn, number),
        "attention.head_count": Value(weights.heads, number),
        "attention.head_count_kv": Value(weights.kv_heads, number),
        "attention.key_length": Value(weights.head_dim, number),
        "attention.value_length": Value(weights.head_dim, number),
        "attention.layer_norm_rms_epsilon": Value(weights.epsilon, real),
        "rope.dimension_count": Value(weights.head_dim, number),
        "rope.freq_base": Value(weights.rope_base, real),
        "target_hidden_size": Value(weights.tap_size or weights.hidden, number),
        "norm_before_residual": Value(weights.norm_before_residual, GGUFValueType.BOOL),
        "target_layers": Value(
            [tap + 1 for tap in weights.taps or taps_of(layers)], GGUFValueType.ARRAY, GGUFValueType.INT32
        ),
    }
    if weights.norm_taps is not None:
        found["norm_before_fc"] = Value(True, GGUFValueType.BOOL)
    text = GGUFValueType.STRING
    first = {ARCHITECTURE: Value(EAGLE3, text), "general.name": Value(name, text)}
    return first | {f"{EAGLE3}.{key}": value for key, value in found.items()}
