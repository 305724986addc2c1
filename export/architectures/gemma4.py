"""Gemma 4 (text of E2B, E4B and 26B-A4B): heads of two sizes, shared keys, per-layer embeddings, experts.

Norm weights are stored as they are used. Layers without a window rotate a part of each head: the other
frequencies are 0, which the divisors of a file say with huge numbers.
"""

from __future__ import annotations

from edgedec.export.architectures.base import Architecture, Mixture

GEMMA4 = Architecture(
    name="gemma4",
    qk_norm=True,
    value_norm=True,
    post_norms=True,
    activation="gelu_tanh",
    scale_embedding=True,
    global_period=6,
    local_rope_base=10000.0,
    sizes_by_layer=True,
    foreign=("v.", "a.", "mm."),
    experts=Mixture(beside=True, own_norm=True, factors=True),
    honours=frozenset({"final_logit_softcapping"}),
    attention_scale=lambda _layers, _hidden, _heads, _dim: 1.0,
)
