"""Gemma 2: four norms a layer, every other layer local, soft caps on attention scores and final logits."""

from __future__ import annotations

import math

from edgedec.export.architectures.base import Architecture

_LAYERS_OF_27B = 46


def _attention_scale(layers: int, hidden: int, heads: int, head_dim: int) -> float:
    """Scale by the hidden size per head in the 27B model (``query_pre_attn_scalar`` = 144) only."""
    return 1.0 / math.sqrt(hidden / heads if layers == _LAYERS_OF_27B else head_dim)


GEMMA2 = Architecture(
    name="gemma2",
    post_norms=True,
    activation="gelu_tanh",
    scale_embedding=True,
    global_period=2,
    attention_scale=_attention_scale,
    softcaps=(50.0, 30.0),
    honours=frozenset({"attn_logit_softcapping", "final_logit_softcapping"}),
)
