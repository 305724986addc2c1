"""Describes the differences between decoder-only transformers as data for the graph builder."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from edgedec.core.quick_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Mixture:
    """Facts about the experts of an architecture that its files do not state."""

    gating: Literal["softmax", "sigmoid"] = "softmax"
    """Function from the router's logits to weights, where the file states none."""
    biased: bool = False
    """A bias is added to the weights for choosing."""
    epsilon: float = 0.0
    """Number added to the sum that weights are divided by."""
    shared: bool = False
    """One more expert may compute every token, times the sigmoid of a gate."""
    beside: bool = False
    """An MLP computes every token too, and both have norms of their own. Models may have the MLP alone."""
    own_norm: bool = False
    """The router reads hidden states through a norm of its own, divided by the root of their number."""
    factors: bool = False
    """The weight of each expert has a factor."""
    biases: bool = False
    """The router's linear has a bias, and the three of each expert have."""


@dataclass(frozen=True, slots=True)
class Architecture:
    """A pre-norm decoder with grouped-query attention, rotary positions and a gated MLP."""

    name: str
    interleaved: bool = False
    """Rotary pairs: (2i, 2i+1) when true, (i, i + d/2) otherwise."""
    qkv_bias: bool = False
    output_bias: bool = False
    """The linear behind the heads has a bias."""
    sinks: bool = False
    """Each head has a logit that takes part in its softmax, without a key or value."""
    qk_norm: bool = False
    """RMS norms on every head of q and k, before the rotation."""
    post_norms: bool = False
    """RMS norms on the outputs of attention and MLP, before the residual is added."""
    activation: Literal["silu", "gelu_tanh", "clamped_silu"] = "silu"
    scale_embedding: bool = False
    """Embeddings are multiplied by sqrt(hidden size)."""
    global_period: int = 0
    """Every n-th layer attends to all tokens, the others to a sliding window; 0: no windows."""
    windows_everywhere: bool = False
    """With ``global_period`` 0: every layer has the model's window, unless it holds the whole context."""
    local_rope_base: float | None = None
    """Rotary base of layers with a window; None: the base of the others."""
    long_rope: bool = False
    """LongRoPE: two sets of factors, for contexts up to the original one (used here) and beyond."""
    yarn: bool = False
    """Rotary positions may be scaled by YaRN."""
    yarn_whole_pairs: bool = True
    """YaRN's ramp begins and ends at a pair, and not between two."""
    no_rope_period: int = 0
    """Every n-th layer rotates nothing: its tokens have no positions; 0: all layers rotate."""
    finetuned_rope: bool = False
    """``rope.scaling.finetuned`` says whether layers rotate at all."""
    partial_rotary: bool = False
    """Some models rotate only the first elements of a head. Needs ``fused`` or ``gated_attention``."""
    fused: bool = False
    """One tensor holds q, k and v in this order, another gate and up."""
    gated_attention: bool = False
    """The q projection is twice as wide: the second half of each head gates its output."""
    recurrent: Literal["", "delta", "conv"] = ""
    """Kind of the layers that are not attention; empty: all are."""
    experts: Mixture | None = None
    """Layers have experts in the place of an MLP or beside one, perhaps not the first ones."""
    mlp_norm: str = "ffn_norm"
    """Name of the norm before the MLP."""
    last_norm: str = "output_norm"
    """Name of the norm before the head."""
    sizes_by_layer: bool = False
    """Layers with a window have heads of another size, the last layers may share the keys of earlier ones and
    have wider MLPs, and there may be per-layer embeddings.
    """
    value_norm: bool = False
    """RMS norms without weights on every head of v."""
    foreign: tuple[str, ...] = ()
    """How names of tensors begin that belong to towers for pictures and sound, which are left out."""
    softcaps: tuple[float, float] = (0.0, 0.0)
    """Defaults of c in c tanh(x / c), for attention scores and for final logits; 0: no cap."""
    honours: frozenset[str] = frozenset()
    """Metadata keys, beside the number of experts, that this architecture computes and others refuse
    (``hyperparameters._REFUSED``).
    """
    attention_scale: Callable[[int, int, int, int], float] | None = None
    """Function from (layers, hidden, heads, head_dim) to the factor on q.k; None: 1/sqrt(head_dim)."""
