"""Phi-3.5 mini and Phi-4 mini, by Microsoft. Contexts end where other RoPE factors would begin."""

from __future__ import annotations

from edgedec.core.model_spec import ModelSpec
from edgedec.models.catalogue.entry import MIT, Entry, on_hub
from edgedec.models.recipes import HubFile

PHI = (
    Entry(
        on_hub(
            name="phi3.5-mini",
            title="Phi-3.5 mini Instruct, Q4_K_M",
            bytes=2_393_000_000,
            licence=MIT,
            hub=HubFile("bartowski/Phi-3.5-mini-instruct-GGUF", quant="Q4_K_M"),
        ),
        ModelSpec(
            name="phi3.5-mini",
            architecture="phi3",
            vocab_size=32_064,
            n_layers=32,
            n_heads=32,
            n_kv_heads=32,
            head_dim=96,
            hidden_size=3072,
            context_length=4096,
            ffn_size=8192,
            table_bytes=56_000_000,
        ),
        parameters=3_821_000_000,
        vocabulary="phi3",
        good_for="reasoning and code in English; its KV cache is large",
        tested="twin",
    ),
    Entry(
        on_hub(
            name="phi4-mini",
            title="Phi-4 mini Instruct, Q4_K_M",
            bytes=2_492_000_000,
            licence=MIT,
            hub=HubFile("unsloth/Phi-4-mini-instruct-GGUF", quant="Q4_K_M"),
        ),
        ModelSpec(
            name="phi4-mini",
            architecture="phi3",
            vocab_size=200_064,
            n_layers=32,
            n_heads=24,
            n_kv_heads=8,
            head_dim=128,
            hidden_size=3072,
            context_length=4096,
            ffn_size=8192,
        ),
        parameters=3_836_000_000,
        vocabulary="phi4",
        good_for="reasoning, arithmetic and code in many languages",
        tested="twin",
    ),
)
