"""LFM2 and LFM2.5 with experts (8B-A1B): as LFM2, with experts behind the first layers."""

from __future__ import annotations

from edgedec.export.architectures.base import Architecture, Mixture

LFM2MOE = Architecture(
    name="lfm2moe",
    interleaved=False,
    qk_norm=True,
    recurrent="conv",
    last_norm="token_embd_norm",
    experts=Mixture(gating="sigmoid", biased=True, epsilon=1e-6),
    honours=frozenset({"expert_count"}),
)
