"""Granite 3 with experts: as Llama, with factors on embeddings, scores, logits and what layers add."""

from __future__ import annotations

from edgedec.export.architectures.base import Architecture, Mixture

GRANITEMOE = Architecture(
    name="granitemoe",
    interleaved=True,
    finetuned_rope=True,
    experts=Mixture(),
    honours=frozenset({"embedding_scale", "residual_scale", "logit_scale"}),
)
