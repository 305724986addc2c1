"""Gemma 3 (text): four norms a layer, q and k norms, five local layers to one global.

Norm weights in the file include the 1 that is added to them.
"""

from __future__ import annotations

import math
from dataclasses import replace

from edgedec.export.architectures.base import Architecture

_LAYERS_OF_27B = 62


def _attention_scale(layers: int, hidden: int, heads: int, head_dim: int) -> float:
    """Scale by the hidden size per head in the 27B model (``query_pre_attn_scalar`` = 168) only."""
    return 1.0 / math.sqrt(hidden / heads if layers == _LAYERS_OF_27B else head_dim)


GEMMA3 = Architecture(
    name="gemma3",
    qk_norm=True,
    post_norms=True,
    activation="gelu_tanh",
    scale_embedding=True,
    global_period=6,
    local_rope_base=10000.0,
    attention_scale=_attention_scale,
)
GEMMA_EMBEDDING = replace(GEMMA3, name="gemma-embedding")
"""EmbeddingGemma: tokens see those behind them, too."""
