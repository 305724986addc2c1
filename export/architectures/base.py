"""Differences between decoder-only transformers, as data for the one graph builder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Architecture:
    """A pre-norm decoder with grouped-query attention, rotary positions and a gated MLP."""

    name: str
    interleaved: bool
    """Rotary pairs: (2i, 2i+1) when true, (i, i + d/2) otherwise."""
    qkv_bias: bool = False
    qk_norm: bool = False
    """RMS norms on every q and k head before the rotation."""
    post_norms: bool = False
    """RMS norms on the outputs of attention and MLP, before the residual is added."""
    activation: Literal["silu", "gelu_tanh"] = "silu"
    scale_embedding: bool = False
    """Embeddings are multiplied by sqrt(hidden size)."""
    global_period: int = 0
    """Every n-th layer attends to everything, the others to a sliding window; 0: no windows."""
    windows_everywhere: bool = False
    """With ``global_period`` 0: a model may have a window, and then every layer has it."""
    local_rope_base: float | None = None
    """Rotary base of the layers with a window; None: they have the same positions as the others."""
    long_rope: bool = False
    """LongRoPE: factors for contexts up to the original one, which are used, and for longer ones."""
    fused: bool = False
    """One tensor holds q, k and v, and one gate and up, in this order."""
    softcaps: tuple[float, float] = (0.0, 0.0)
    """c in c tanh(x / c), on attention scores and on final logits, where a model does not say; 0: none."""
    honours: frozenset[str] = frozenset()
    """Metadata keys that other architectures refuse (``hyperparameters._REFUSED``)."""
    attention_scale: Callable[[int, int, int, int], float] | None = None
    """(layers, hidden, heads, head_dim) -> factor on q.k; None: 1/sqrt(head_dim)."""
