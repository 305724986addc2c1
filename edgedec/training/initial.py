"""The weights that training of a head begins with: the target's last layer, where shapes allow it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from edgedec.core.model_spec import ModelSpec
from edgedec.export.draft_head.gguf import halves
from edgedec.export.draft_head.weights import TAPS, Floats, HeadWeights
from edgedec.training.target_weights import TargetWeights

_SPREAD = 0.01
"""Standard deviation of weights that the target has no counterpart of."""


def initial_head(
    weights: TargetWeights, spec: ModelSpec, keep: NDArray[np.int64], *, own_head: bool = False, seed: int = 0
) -> HeadWeights:
    """Return a head whose layer is the target's last one, over the third tapped layer.

    The half of q, k and v that reads the embedding is small and random. ``own_head``: the
    head has a trained copy of the target's rows ``keep``; otherwise it uses these.
    """
    draw = np.random.default_rng(seed)
    d, block = spec.hidden_size, f"blk.{spec.n_layers - 1}."
    queries, keys = spec.n_heads * spec.head_dim, spec.n_kv_heads * spec.head_dim

    def noise(rows: int, columns: int) -> Floats:
        return (_SPREAD * draw.standard_normal((rows, columns))).astype(np.float32)

    def target(name: str, rows: int, columns: int) -> Floats:
        if not weights.has(block + name):
            return noise(rows, columns)
        matrix = weights.matrices[block + name]
        found = matrix.read(0, matrix.rows)
        return found if found.shape == (rows, columns) else noise(rows, columns)

    def scale(name: str) -> Floats:
        return weights.vector(name) if weights.has(name) else np.ones(d, dtype=np.float32)

    def turned(name: str, heads: int) -> Floats:
        matrix = target(name, heads * spec.head_dim, d)
        return halves(matrix, spec.head_dim) if weights.interleaved else matrix

    def with_embedding(matrix: Floats) -> Floats:
        return np.concatenate([noise(*matrix.shape), matrix], axis=1)

    ffn = spec.taken // spec.n_layers  # as wide as what computes a token of the target
    return HeadWeights(
        hidden=d,
        heads=spec.n_heads,
        kv_heads=spec.n_kv_heads,
        head_dim=spec.head_dim,
        ffn=ffn,
        rope_base=weights.rope_base,
        epsilon=weights.epsilon,
        keep=keep,
        fc=np.concatenate(
            [np.zeros((d, (TAPS - 1) * d), dtype=np.float32), np.eye(d, dtype=np.float32)], axis=1
        ),
        norm_embed=np.ones(d, dtype=np.float32),
        norm_state=scale(block + "attn_norm.weight"),
        attn_q=with_embedding(turned("attn_q.weight", spec.n_heads)),
        attn_k=with_embedding(turned("attn_k.weight", spec.n_kv_heads)),
        attn_v=with_embedding(target("attn_v.weight", keys, d)),
        attn_output=target("attn_output.weight", d, queries),
        ffn_norm=scale(block + "ffn_norm.weight"),
        ffn_gate=target("ffn_gate.weight", ffn, d),
        ffn_up=target("ffn_up.weight", ffn, d),
        ffn_down=target("ffn_down.weight", d, ffn),
        output_norm=scale("output_norm.weight"),
        head=weights.head.gather(keep) if own_head else None,
    )
