"""Qwen3, by Alibaba Cloud. Its models think before they answer."""

from __future__ import annotations

from dataclasses import replace

from edgedec.core.model_spec import ModelSpec
from edgedec.core.preset import Preset
from edgedec.models.catalogue.entry import APACHE, Entry, on_hub
from edgedec.models.recipes import HubFile

_SPEC = ModelSpec(
    name="qwen3-0.6b",
    architecture="qwen3",
    vocab_size=151_936,
    n_layers=28,
    n_heads=16,
    n_kv_heads=8,
    head_dim=128,
    hidden_size=1024,
    context_length=40_960,
    ffn_size=3072,
)
_PRESET = Preset(temperature=0.6, top_k=20, top_p=0.95)

QWEN3 = (
    Entry(
        on_hub(
            name="qwen3-0.6b",
            title="Qwen3 0.6B, Q8_0",
            bytes=639_000_000,
            licence=APACHE,
            hub=HubFile("Qwen/Qwen3-0.6B-GGUF", quant="Q8_0"),
            preset=_PRESET,
        ),
        _SPEC,
        parameters=596_000_000,
        vocabulary="qwen3",
        good_for="small tasks with some reasoning, in many languages; drafts for its larger sisters",
        tested="twin",
        thinks=True,
    ),
    Entry(
        on_hub(
            name="qwen3-1.7b",
            title="Qwen3 1.7B, Q4_K_M",
            bytes=1_107_000_000,
            licence=APACHE,
            hub=HubFile("unsloth/Qwen3-1.7B-GGUF", quant="Q4_K_M"),
            preset=_PRESET,
        ),
        replace(_SPEC, name="qwen3-1.7b", hidden_size=2048, ffn_size=6144),
        parameters=1_721_000_000,
        vocabulary="qwen3",
        good_for="reasoning, arithmetic and chat in many languages",
        tested="twin",
        drafter="qwen3-0.6b",
        thinks=True,
    ),
    Entry(
        on_hub(
            name="qwen3-4b",
            title="Qwen3 4B, Q4_K_M",
            bytes=2_497_000_000,
            licence=APACHE,
            hub=HubFile("Qwen/Qwen3-4B-GGUF", quant="Q4_K_M"),
            preset=_PRESET,
        ),
        replace(_SPEC, name="qwen3-4b", n_layers=36, n_heads=32, hidden_size=2560, ffn_size=9728),
        parameters=4_022_000_000,
        vocabulary="qwen3",
        good_for="the best reasoning, code and chat of this list, where memory allows",
        tested="twin",
        drafter="qwen3-0.6b",
        thinks=True,
    ),
)
